"use strict";
// Headings of a table become buttons that sort; aria-sort tells which one did, and which way.
function sortable(row, onSort) {
  for (const th of row.cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = th.textContent;
    th.textContent = "";
    th.append(button);
    button.addEventListener("click", () => {
      const now = th.getAttribute("aria-sort");
      // The first click shows the largest number, or the first word, on top.
      const down = now ? now === "ascending" : th.classList.contains("num");
      for (const other of row.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      onSort(th.cellIndex, down);
    });
  }
}

// Numbers by size, words by locale; empty cells are last in both directions.
function compare(a, b, down) {
  const none = (v) => v === null || v === undefined || v === "";
  if (none(a) || none(b)) return none(a) - none(b);
  const order =
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (cell) =>
    cell.dataset.key === undefined ? cell.textContent : cell.dataset.key === "" ? null : Number(cell.dataset.key);
  sortable(table.tHead.rows[0], (column, down) =>
    body.append(...[...body.rows].sort((a, b) => compare(key(a.cells[column]), key(b.cells[column]), down))),
  );
}
for (const input of document.querySelectorAll("[data-filter]")) {
  const table = input.closest("section").querySelector("table.sortable");
  input.addEventListener("input", () => {
    const word = input.value.toLowerCase();
    for (const row of table.tBodies[0].rows)
      row.classList.toggle("unmatched", !row.textContent.toLowerCase().includes(word));
  });
}

// Rows of tables belong to a format or a matrix: the filter hides them, and the pointer highlights them.
const byName = {
  f: new Map(formats.name.map((name, f) => [name, f])),
  m: new Map(matrices.name.map((name, m) => [name, m])),
};
const rowsOfTables = [];
for (const row of document.querySelectorAll("table.sortable tbody tr")) {
  const head = row.cells[0],
    name = head.textContent;
  const f = byName.f.get(name),
    m = byName.m.get(name);
  if (f !== undefined) {
    row.dataset.f = f;
    head.prepend(icon(f));
  } else if (m !== undefined) {
    head.replaceChildren(html("a", { href: matrixAnchor(m) }, name));
  } else continue;
  rowsOfTables.push({ row, f, m });
}
onChange((what) => {
  if (what !== "filter") return;
  for (const { row, f, m } of rowsOfTables)
    row.hidden = f === undefined ? !state.matrices.has(m) : !state.formats.has(f);
  const narrowed = state.matrices.size < everyMatrix.length;
  for (const note of document.querySelectorAll(".of-all")) note.hidden = !narrowed;
});

// The table of matrices: only one page of rows is in the document at a time.
const grid = (function () {
  const byId = (id) => document.getElementById(id);
  const [viewed, all, table] = ["view", "all", "cells"].map(byId);
  const PAGE = 50,
    FIRST = 8;
  const BEFORE = ["Matrix", "Rows", "Nonzeros", "Mean row", "Longest row", "Row CV", "Best", "Its value"];
  const AFTER = ["Kind", "SHA-256"];
  const WORDS = new Set(["Matrix", "Best", ...AFTER]);
  const views = [];
  settings.forEach((name, s) => {
    if (cases.some((c) => c.setting === s && c.gflops > 0))
      views.push({
        name: `${data.units[name]}, ${name}`,
        most: true,
        of: (c) => c.setting === s,
        value: (c) => c.gflops,
      });
  });
  for (const type of new Set(data.types)) {
    if (cases.some((c) => data.types[c.setting] === type && c.bytes > 0)) {
      views.push({
        name: `bytes per nonzero, ${type}`,
        most: false,
        of: (c) => data.types[c.setting] === type,
        value: (c) => c.bytes,
      });
    }
  }
  views.forEach((v, i) => viewed.add(new Option(v.name, i)));
  if (!views.length || !everyMatrix.length) {
    byId("grid").textContent = "No matrix was measured.";
    return { reveal() {} };
  }
  let page = 0,
    sorted = null,
    columns = [],
    cells = new Map(),
    others = new Map(); // by matrix: formats that are another's name there, with that format

  const text = (v) =>
    v === null || v === undefined
      ? "-"
      : typeof v === "number"
        ? v.toLocaleString("en", Math.abs(v) < 1000 ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 0 })
        : v;

  // Rates within the accuracy of times are tied.
  function leads(value, first, most) {
    return typeof value === "number" && (most ? value * data.tie >= first : value === first);
  }

  // The cells of each matrix: numbers, the status of failed and skipped cases, null if there is no case.
  function filled() {
    const { of, value, most } = views[viewed.value];
    cells = new Map(everyMatrix.map((m) => [m, new Map()]));
    others = new Map(everyMatrix.map((m) => [m, new Map()]));
    for (const c of cases) {
      if (!of(c) || !formats.ranked[c.f]) continue;
      const held = cells.get(c.m);
      if (!held.has(c.f) || c.status === OK) held.set(c.f, c.status === OK ? value(c) : data.statuses[c.status]);
      if (most && c.program !== c.f && state.formats.has(c.program)) others.get(c.m).set(c.f, c.program);
    }
    const some = everyFormat.filter((f) => formats.ranked[f] && state.formats.has(f));
    const lit = some.filter((f) => state.pinned.has(f)),
      rest = some.filter((f) => !state.pinned.has(f));
    const ordered = [...lit, ...rest];
    columns = all.checked ? ordered : ordered.slice(0, Math.max(FIRST, lit.length));
    all.parentElement.hidden = ordered.length <= FIRST;
    all.of = ordered;
  }

  // A row: the matrix and its size, its best format with its value, all formats, kind and hash.
  function rows(shown = columns) {
    const { most } = views[viewed.value];
    const found = [...state.matrices].map((m) => {
      const held = cells.get(m),
        numbers = all.of.filter((f) => typeof held.get(f) === "number" && held.get(f) > 0 && !others.get(m).has(f));
      const at = most ? d3.greatest(numbers, (f) => held.get(f)) : d3.least(numbers, (f) => held.get(f));
      const winner = at === undefined ? [null, null] : [formats.name[at], held.get(at)];
      const { name, kind, rows, nnz, mean, longest, cv, sha } = matrices;
      const values = shown.map((f) => held.get(f) ?? null);
      return {
        m,
        first: winner[1],
        most,
        same: shown.map((f) => others.get(m).get(f)),
        values: [name[m], rows[m], nnz[m], mean[m], longest[m], cv[m], ...winner, ...values, kind[m], sha[m]],
      };
    });
    if (sorted) {
      // Cells with a status are sorted as empty.
      const size = (v) => (sorted.words || typeof v === "number" ? v : null);
      found.sort((a, b) => compare(size(a.values[sorted.column]), size(b.values[sorted.column]), sorted.down));
    }
    return found;
  }

  function head(shown = columns) {
    const row = document.createElement("tr");
    [...BEFORE, ...shown.map((f) => formats.name[f]), ...AFTER].forEach((label, i) => {
      const th = html("th", { scope: "col" }, label);
      if (!WORDS.has(label)) th.className = "num";
      const f = shown[i - BEFORE.length];
      if (i >= BEFORE.length && f !== undefined) th.dataset.f = f;
      row.append(th);
    });
    return row;
  }
  function headed() {
    const row = head();
    table.tHead.replaceChildren(row);
    sorted = null;
    sortable(row, (column, down) => {
      sorted = { column, down, words: WORDS.has(row.cells[column].textContent) };
      page = 0;
      fill();
    });
  }
  function line({ m, first, most, same, values }) {
    const tr = html("tr", { id: matrixAnchor(m).slice(1) });
    values.forEach((value, i) => {
      const cell = html(i ? "td" : "th");
      if (!i) cell.scope = "row";
      const inside = i >= BEFORE.length && i < values.length - AFTER.length;
      const other = inside ? same[i - BEFORE.length] : undefined;
      if (typeof value === "number")
        cell.className = inside && other === undefined && leads(value, first, most) ? "num best" : "num";
      else if (inside) cell.className = "not";
      cell.textContent = text(value);
      if (other !== undefined) cell.append(html("small", {}, ` = ${formats.name[other]} here`));
      tr.append(cell);
    });
    return tr;
  }

  function fill() {
    const found = rows(),
      pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(page, pages - 1);
    const some =
      columns.length < all.of.length ? `: ${columns.length} of ${all.of.length} formats; the best is of all` : "";
    table.caption.textContent = views[viewed.value].name + some;
    table.tBodies[0].replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(line));
    const from = found.length ? page * PAGE + 1 : 0;
    byId("where").textContent = `${from} to ${Math.min(found.length, (page + 1) * PAGE)} of ${found.length} matrices`;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page === pages - 1;
  }
  function anew() {
    filled();
    headed();
    fill();
  }

  viewed.addEventListener("change", () => {
    filled();
    fill();
  });
  all.addEventListener("change", anew);
  byId("previous").addEventListener("click", () => {
    page -= 1;
    fill();
  });
  byId("next").addEventListener("click", () => {
    page += 1;
    fill();
  });
  onChange((what) => {
    if (what !== "hover") anew();
  });
  anew();
  return {
    // Show the row of a matrix, on its page.
    reveal(m) {
      const place = rows().findIndex((row) => row.m === m);
      if (place < 0) return;
      page = Math.floor(place / PAGE);
      fill();
      const row = document.getElementById(matrixAnchor(m).slice(1));
      row.classList.add("sought");
      row.scrollIntoView({ block: "center" });
    },
    // Every column on paper, in as many tables as it takes.
    printed() {
      const parts = d3.range(0, all.of.length, 8).map((from) => all.of.slice(from, from + 8));
      return parts.map((part) => {
        const whole = html(
          "table",
          {},
          html("caption", {}, `${views[viewed.value].name}: ${formats.name[part[0]]} to ${formats.name[part.at(-1)]}`),
        );
        whole.append(html("thead", {}, head(part)), html("tbody", {}, ...rows(part).map(line)));
        for (const row of whole.querySelectorAll("[id]")) row.removeAttribute("id");
        return whole;
      });
    },
  };
})();

// Anchors: a matrix's row may be on another page, and a format's under a closed heading.
function follow(hash) {
  const name = decodeURIComponent(hash);
  if (name.startsWith("#matrix-")) grid.reveal(byName.m.get(name.slice(8)));
  const target = document.getElementById(hash.slice(1)) ?? document.getElementById(name.slice(1));
  for (let holder = target; holder; holder = holder.parentElement) if (holder.tagName === "DETAILS") holder.open = true;
  if (name.startsWith("#format-")) target?.scrollIntoView({ block: "center" });
}
addEventListener("hashchange", () => follow(location.hash));

// The filter. Every control is a native one, so that a keyboard reaches it.
(function () {
  const byId = (id) => document.getElementById(id);
  const list = byId("formats-list"),
    items = [];
  for (const f of d3.sort(everyFormat, (f) => formats.name[f])) {
    const box = html("input", { type: "checkbox", checked: true, "aria-label": `show ${formats.name[f]}` });
    const button = html(
      "button",
      { type: "button", "aria-pressed": "false", title: `highlight ${formats.name[f]}` },
      icon(f),
      formats.name[f],
    );
    const item = html("li", { "data-f": f }, box, button);
    box.addEventListener("change", () => {
      state.formats[box.checked ? "add" : "delete"](f);
      changed("filter");
    });
    button.addEventListener("click", () => toggle(f));
    for (const kind of ["mouseenter", "focus"]) button.addEventListener(kind, () => hover(f));
    for (const kind of ["mouseleave", "blur"]) button.addEventListener(kind, () => hover(null));
    items.push({ f, item, box, button });
    list.append(item);
  }
  const [family, word, group, find, least, base] = ["family", "word", "group", "find", "least", "base"].map(byId);
  for (const name of d3.sort(new Set(formats.family))) if (name) family.add(new Option(name));
  for (const name of d3.sort(new Set(matrices.group))) group.add(new Option(name));
  for (const f of d3.sort(
    everyFormat.filter((f) => formats.ranked[f]),
    (f) => formats.name[f],
  ))
    base.add(new Option(formats.name[f], f));
  base.value = data.baseline;

  const listed = ({ f }) =>
    (!family.value || formats.family[f] === family.value) && formats.name[f].includes(word.value.trim().toLowerCase());
  function relist() {
    for (const entry of items) entry.item.hidden = !listed(entry);
  }
  family.addEventListener("change", relist);
  word.addEventListener("input", relist);
  const choose = (wanted) => {
    state.formats = new Set(everyFormat.filter(wanted));
    for (const { f, box } of items) box.checked = state.formats.has(f);
    changed("filter");
  };
  byId("only").addEventListener("click", () => {
    const f = new Set(items.filter(listed).map((entry) => entry.f));
    choose((one) => f.has(one));
  });
  byId("lit").addEventListener("click", () => choose((f) => state.pinned.has(f)));
  byId("every").addEventListener("click", () => choose(() => true));

  function chooseMatrices() {
    const text = find.value.trim().toLowerCase(),
      from = Number(least.value) || 0;
    state.matrices = new Set(
      everyMatrix.filter(
        (m) =>
          (!group.value || matrices.group[m] === group.value) &&
          matrices.nnz[m] >= from &&
          `${matrices.name[m]} ${matrices.kind[m]}`.toLowerCase().includes(text),
      ),
    );
    changed("filter");
  }
  for (const input of [find, least]) input.addEventListener("input", chooseMatrices);
  group.addEventListener("change", chooseMatrices);
  base.addEventListener("change", () => {
    state.baseline = Number(base.value);
    for (const name of document.querySelectorAll(".baseline")) name.textContent = formats.name[state.baseline];
    changed("filter");
  });
  byId("reset").addEventListener("click", () => {
    for (const input of [family, word, group, find, least]) input.value = "";
    base.value = data.baseline;
    state.pinned = new Set(data.highlight);
    relist();
    base.dispatchEvent(new Event("change"));
    choose(() => true);
    chooseMatrices();
  });
  function updateStatus() {
    for (const { f, button } of items) button.setAttribute("aria-pressed", state.pinned.has(f));
    byId("selected").textContent =
      `${state.formats.size} of ${everyFormat.length} formats, ${state.matrices.size} of ${everyMatrix.length} matrices`;
  }
  onChange((what) => {
    if (what !== "hover") updateStatus();
  });
  updateStatus();
  if (matchMedia("(max-width: 60rem)").matches)
    for (const part of document.querySelectorAll(".side > details")) part.open = false;
})();

function toggle(f) {
  state.pinned[state.pinned.has(f) ? "delete" : "add"](f);
  changed("marks");
}
function hover(f) {
  if (state.hovered === f) return;
  state.hovered = f;
  changed("hover");
}

// Values of the point under the pointer or at the arrow keys; a click keeps them shown and highlights the format.
(function () {
  const tip = document.getElementById("tip");
  let kept = false;
  function near(hits, x, y) {
    let found = null,
      least = 22;
    for (const hit of hits) {
      const [dx, dy] = [Math.abs(hit.x - x), Math.abs(hit.y - y)];
      const far = hit.w ? (dx <= hit.w / 2 && dy <= hit.h / 2 ? 0 : Infinity) : Math.hypot(dx, dy);
      if (far < least) [found, least] = [hit, far];
    }
    return found;
  }
  function tell(hit, x, y) {
    const name = hit.f < 0 ? hit.name : formats.name[hit.f];
    const lines = hit.lines.flatMap(([key, value]) => [html("dt", {}, key), html("dd", {}, String(value))]);
    const links = [];
    if (hit.f >= 0) links.push(html("a", { href: formatAnchor(hit.f) }, "format"));
    if (hit.m >= 0) links.push(html("a", { href: matrixAnchor(hit.m) }, "row"));
    const head = html("strong", {}, ...(hit.f >= 0 ? [icon(hit.f)] : []), name);
    const of = html("p", {}, [hit.m >= 0 ? matrices.name[hit.m] : "", hit.panel].filter(Boolean).join(", "));
    tip.replaceChildren(head, of, html("dl", {}, ...lines), html("p", { className: "links" }, ...links));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 12) : y + 16}px`;
  }
  function hide() {
    kept = false;
    tip.hidden = true;
    hover(null);
  }

  const chartOf = (event) => event.target.closest?.("figure[data-chart] .panel svg");
  document.addEventListener("pointermove", (event) => {
    const picture = chartOf(event);
    if (kept) return;
    const box = picture?.getBoundingClientRect();
    const hit = picture?.hits && near(picture.hits, event.clientX - box.left, event.clientY - box.top);
    if (!hit) return tip.hidden ? undefined : hide();
    hover(hit.f >= 0 ? hit.f : null);
    tell(hit, event.clientX, event.clientY);
  });
  document.addEventListener("click", (event) => {
    const picture = chartOf(event),
      entry = event.target.closest?.(".legend [data-f]");
    if (entry) return toggle(Number(entry.dataset.f));
    if (!picture) return tip.contains(event.target) ? undefined : kept && hide();
    const box = picture.getBoundingClientRect(),
      hit = near(picture.hits, event.clientX - box.left, event.clientY - box.top);
    if (!hit) return hide();
    kept = false;
    if (hit.f >= 0) toggle(hit.f);
    tell(hit, event.clientX, event.clientY);
    kept = true;
  });
  let place = -1;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !tip.hidden) return hide();
    const box = event.target.closest?.(".panels");
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!box || (!step && event.key !== "Enter")) return;
    const all = [...box.querySelectorAll(".panel svg")].flatMap((picture) =>
      d3
        .sort(
          picture.hits ?? [],
          (h) => (h.w ? h.y : h.x),
          (h) => h.x,
        )
        .map((hit) => ({ picture, hit })),
    );
    if (!all.length) return;
    event.preventDefault();
    if (step) place = (place + step + all.length) % all.length;
    const { picture, hit } = all[Math.max(0, place) % all.length];
    if (event.key === "Enter" && hit.f >= 0) return toggle(hit.f);
    const at = picture.getBoundingClientRect();
    hover(hit.f >= 0 ? hit.f : null);
    tell(hit, at.left + hit.x, at.top + hit.y);
  });
  document.addEventListener("focusout", (event) => {
    if (event.target.matches?.(".panels") && !kept) {
      place = -1;
      hide();
    }
  });
})();

// The data of a figure as CSV, for pages without files of data.
for (const link of document.querySelectorAll("a[data-csv]")) {
  link.addEventListener("click", () => {
    const chart = data.charts[link.dataset.csv],
      rows = rowsOf(chart);
    const known = (r) => ({
      ...r,
      setting: r.panel,
      format: called(r),
      matrix: r.m < 0 ? "" : matrices.name[r.m],
    });
    const skip = new Set(["f", "m", "c", "base", "panel", "name", "status", "setting", "format", "matrix"]);
    const names = ["setting", "format", "matrix", ...Object.keys(rows[0] ?? {}).filter((key) => !skip.has(key))];
    const lines = rows.map(known).map((r) => names.map((key) => JSON.stringify(r[key] ?? "")).join(","));
    link.href = URL.createObjectURL(new Blob([[names.join(","), ...lines].join("\n"), "\n"], { type: "text/csv" }));
  });
}

// Printing: all sections are opened, all figures drawn, wide tables split.
let closed = [],
  parted = [];
const WIDE = 12;
function inParts(table) {
  const rows = [...table.rows].filter((row) => !row.hidden),
    width = rows[0].cells.length;
  return d3.range(1, width, WIDE - 1).map((from) => {
    const part = html("table", { className: "part" }),
      body = [];
    for (const row of rows) {
      const cells = [row.cells[0], ...[...row.cells].slice(from, from + WIDE - 1)].map((cell) => cell.cloneNode(true));
      body.push(html("tr", {}, ...cells));
    }
    part.append(
      html("caption", {}, table.caption?.textContent ?? ""),
      html("thead", {}, body[0]),
      html("tbody", {}, ...body.slice(1)),
    );
    return part;
  });
}
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const details of closed) details.open = true;
  drawAll();
  for (const table of document.querySelectorAll("main table")) {
    const parts =
      table.id === "cells" ? (grid.printed?.() ?? []) : table.rows[0]?.cells.length > WIDE ? inParts(table) : [];
    if (!parts.length) continue;
    table.after(...parts);
    table.classList.add("replaced");
    parted.push({ table, parts });
  }
});
addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
  for (const { table, parts } of parted) {
    for (const part of parts) part.remove();
    table.classList.remove("replaced");
  }
  parted = [];
});

// The section or figure at the top of the window is marked in the table of contents.
(function () {
  const links = new Map([...document.querySelectorAll(".side nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(target.id)?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-5% 0px -85% 0px" },
  );
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target) seen.observe(target);
  }
})();

follow(location.hash);
