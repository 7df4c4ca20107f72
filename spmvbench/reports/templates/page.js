"use strict";
// Tables, controls, tooltips, anchors and printing.

// Headings of a table become buttons that sort; the first click shows the largest number, or the first word, on top.
function sortable(table, onSort) {
  for (const th of table.tHead.rows[0].cells) {
    const button = html("button", { type: "button" }, th.textContent);
    th.replaceChildren(button);
    button.addEventListener("click", () => {
      const now = th.getAttribute("aria-sort");
      onSort(th.cellIndex, now ? now === "ascending" : th.classList.contains("num"));
    });
  }
}
function sortedBy(table, column, down) {
  for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
  table.tHead.rows[0].cells[column]?.setAttribute("aria-sort", down ? "descending" : "ascending");
}
// Numbers by size, words by locale; empty cells are last in both directions.
function compare(a, b, down) {
  const none = (v) => v === null || v === undefined || v === "" || Number.isNaN(v);
  if (none(a) || none(b)) return none(a) - none(b);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}
for (const table of document.querySelectorAll("table.sortable")) {
  const key = ({ dataset, textContent }) => (dataset.key === undefined ? textContent : dataset.key === "" ? null : Number(dataset.key));
  sortable(table, (column, down) => {
    sortedBy(table, column, down);
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => compare(key(a.cells[column]), key(b.cells[column]), down)));
  });
}
for (const input of document.querySelectorAll("[data-filter]"))
  input.addEventListener("input", () => {
    for (const row of input.closest("section").querySelector("table.sortable").tBodies[0].rows)
      row.hidden = !row.textContent.toLowerCase().includes(input.value.toLowerCase());
  });

// The ranking and the table of matrices: of a heading, the value of a cell, and its text if that is a number.
const link = (kind, name, ...before) => html("a", { href: `#${kind}-${encodeURIComponent(name)}` }, ...before, name);
const formatLink = (f) => link("format", formats.name[f], icon(f));
const matrixLink = (m) => link("matrix", matrices.name[m]);
const SHOWN = { coverage: percent, mean_slowdown: times, worst_slowdown: times, margin: times };
const NAMED = {
  kernel: (line) => (line.same_as !== null ? `= ${formats.name[line.same_as]}` : formats.project[line.f] ? "project" : ""),
  worst_matrix: (line) => matrices.name[line.worst_matrix] ?? "",
  fastest: ({ f, tied }) =>
    f === undefined ? "" : namesOf([f, ...tied.slice(0, 2)]).join(", ") + (tied.length > 2 ? ` and ${tied.length - 2} more` : ""),
};
const tables = {
  ranking: {
    items: () => statistic("coverage"),
    said: (lines) => `${lines.length} formats on ${chosenMatrices().size} matrices`,
    head: (line) => ({ id: `format-${line.label}`, "data-f": line.f, first: formatLink(line.f) }),
  },
  "matrices-table": {
    items: () =>
      d3.map(chosenMatrices(), (m) => {
        const about = Object.entries(matrices).map(([field, column]) => [field, column[m]]);
        return { m, ...Object.fromEntries(about), ...statistic("best").get(m) };
      }),
    said: (lines) => `${lines.length} matrices`,
    head: ({ m, name }) => ({ id: `matrix-${name}`, first: matrixLink(m) }),
  },
};
function fill(id) {
  const table = byId(id), headings = [...table.tHead.rows[0].cells], [sorted, column, way] = state.sort.split(" ");
  const value = headings.map((th) => NAMED[th.dataset.field] ?? ((line) => line[th.dataset.field] ?? ""));
  const show = headings.map((th) => (th.classList.contains("num") ? SHOWN[th.dataset.field] ?? digits : null));
  const place = sorted === id ? headings.findIndex((th) => th.dataset.field === column) : -1;
  sortedBy(table, place, way === "down");
  let lines = tables[id].items();
  if (place >= 0) lines = [...lines].sort((a, b) => compare(value[place](a), value[place](b), way === "down"));
  const cell = (line, i) =>
    html("td", { className: show[i] ? "num" : "" }, show[i] && value[i](line) !== "" ? show[i](value[i](line)) : value[i](line));
  const row = (line) => {
    const { first, ...attributes } = tables[id].head(line);
    return html("tr", attributes, html("th", { scope: "row" }, first), ...d3.range(1, headings.length).map((i) => cell(line, i)));
  };
  table.tBodies[0].replaceChildren(...lines.map(row));
  for (const th of table.querySelectorAll("[data-field=gflops]")) th.firstChild.textContent = unit();
  table.caption.textContent = `${state.setting}: ${tables[id].said(lines)}`;
}
for (const id of Object.keys(tables))
  sortable(byId(id), (column, down) => {
    state.sort = `${id} ${byId(id).tHead.rows[0].cells[column].dataset.field} ${down ? "down" : "up"}`;
    changed("filter");
  });

// The controls, which are native ones so that a keyboard reaches them. Those of FIELDS have the field's name as id.
const items = d3.sort(everyFormat, (f) => formats.name[f]).map((f) => {
  const box = html("input", { type: "checkbox", "aria-label": `show ${formats.name[f]}` }),
    button = html("button", { type: "button", title: `highlight ${formats.name[f]}` }, icon(f), formats.name[f]),
    item = html("li", { "data-f": f }, box, button);
  box.addEventListener("change", () => {
    state.hidden[box.checked ? "delete" : "add"](f);
    changed("filter");
  });
  button.addEventListener("click", () => toggle(f));
  for (const kind of ["mouseenter", "focus"]) button.addEventListener(kind, () => hover(f));
  for (const kind of ["mouseleave", "blur"]) button.addEventListener(kind, () => hover(null));
  byId("formats-list").append(item);
  return { f, item, box, button };
});
const options = (id, values, texts = values) => values.forEach((value, i) => byId(id).add(new Option(texts[i], value)));
options("setting", settings);
for (const key of ["kind", "family"]) options(key, d3.sort(new Set(matrices[key].filter(Boolean))));
options("techniques", d3.sort(new Set(formats.family.filter(Boolean))));
const byText = (names) => d3.sort(names.keys(), (i) => names[i]);
options("format", byText(formats.name), byText(formats.name).map((f) => formats.name[f]));
options("matrix", byText(matrices.name), byText(matrices.name).map((m) => matrices.name[m]));
const FREE = Object.keys(FIELDS).filter((key) => byId(key) && key !== "matrix" && key !== "format");
for (const key of FREE) byId(key).addEventListener("input", () => { state[key] = byId(key).value.trim(); changed("filter", key); });
const chooseFormat = (f) => { state.format = formats.name[f]; changed("filter", "format"); };
const chooseMatrix = (m) => { state.matrix = matrices.name[m]; changed("filter", "matrix"); };
byId("format")?.addEventListener("input", () => chooseFormat(byId("format").value));
byId("matrix")?.addEventListener("input", () => chooseMatrix(byId("matrix").value));
const listed = ({ f }) => (!byId("techniques").value || formats.family[f] === byId("techniques").value) && formats.name[f].includes(byId("word").value.trim().toLowerCase());
for (const id of ["techniques", "word"]) byId(id).addEventListener("input", () => items.forEach((entry) => (entry.item.hidden = !listed(entry))));
const only = (some) => { state.hidden = d3.difference(everyFormat, some); changed("filter"); };
byId("only").addEventListener("click", () => only(items.filter(listed).map(({ f }) => f)));
byId("lit").addEventListener("click", () => only(state.pinned));
byId("every").addEventListener("click", () => only(everyFormat));
byId("reset").addEventListener("click", () => {
  decode("");
  changed("filter");
});
byId("csv").addEventListener("click", () => {
  const names = ["format", "matrix", "status", "time", "rate", "bytes", "bound"],
    value = { format: (c) => formats.name[c.f], matrix: (c) => matrices.name[c.m], status: (c) => data.statuses[c.status] };
  const line = (c) => names.map((name) => JSON.stringify(value[name]?.(c) ?? c[name] ?? "").replace(/^"([=+@-])/, "\"'$1")).join(",");
  byId("csv").href = URL.createObjectURL(new Blob([[names.join(","), ...rows().map(line)].join("\n"), "\n"], { type: "text/csv" }));
});
function show() {
  for (const key of FREE) if (byId(key).value !== state[key]) byId(key).value = state[key];
  for (const { f, box, button } of items) {
    box.checked = !state.hidden.has(f);
    button.setAttribute("aria-pressed", state.pinned.has(f));
  }
  byId("selected").textContent = `${everyFormat.length - state.hidden.size} of ${everyFormat.length} formats, ${chosenMatrices().size} of ${everyMatrix.length} matrices`;
  for (const id of Object.keys(tables)) fill(id);
}
onChanged((what) => what === "hover" || show());
function toggle(f) {
  state.pinned[state.pinned.has(f) ? "delete" : "add"](f);
  changed("marks");
}
function hover(f) {
  if (state.hovered === f) return;
  state.hovered = f;
  refresh("hover");
}

// Values of the place under the pointer or at the arrow keys; a click keeps them shown and highlights the format.
const tip = byId("tip");
let kept = false, at = -1;
function nearest(picture, event) {
  const box = picture.getBoundingClientRect();
  const far = (hit) => {
    const [dx, dy] = [Math.abs(hit.x - event.clientX + box.left), Math.abs(hit.y - event.clientY + box.top)];
    return hit.w ? (dx <= hit.w / 2 && dy <= hit.h / 2 ? 0 : Infinity) : Math.hypot(dx, dy);
  };
  const hit = d3.least(picture.hits, far);
  return hit && far(hit) < 22 ? hit : null;
}
function tell({ f, m, lines }, x, y) {
  const texts = lines.flatMap(([key, value]) => [html("dt", {}, key), html("dd", {}, value)]);
  tip.replaceChildren(formatLink(f), html("p", {}, ...(m === null ? [] : [matrixLink(m)])), html("dl", {}, ...texts));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 12) : y + 16}px`;
  hover(f);
}
function hide() {
  [kept, tip.hidden] = [false, true];
  hover(null);
}
const pictureOf = (event) => event.target.closest?.("figure[data-view] .panel svg");
document.addEventListener("pointermove", (event) => {
  if (kept) return;
  const hit = pictureOf(event) && nearest(pictureOf(event), event);
  if (hit) tell(hit, event.clientX, event.clientY);
  else if (!tip.hidden) hide();
});
document.addEventListener("click", (event) => {
  const entry = event.target.closest?.(".legend [data-f]");
  if (entry) return toggle(Number(entry.dataset.f));
  if (!pictureOf(event)) return tip.contains(event.target) ? undefined : kept && hide();
  const hit = nearest(pictureOf(event), event);
  if (!hit) return hide();
  toggle(hit.f);
  tell(hit, event.clientX, event.clientY);
  kept = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !tip.hidden) return hide();
  const box = event.target.closest?.(".panels"),
    step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!box || (!step && event.key !== "Enter")) return;
  const order = (h) => (h.w ? h.y : h.x);
  const every = [...box.querySelectorAll(".panel svg")].flatMap((picture) => d3.sort(picture.hits, order, (h) => h.x).map((hit) => ({ picture, hit })));
  if (!every.length) return;
  event.preventDefault();
  if (step) at = (at + step + every.length) % every.length;
  const { picture, hit } = every[Math.max(0, at) % every.length], corner = picture.getBoundingClientRect();
  if (event.key === "Enter") toggle(hit.f);
  else tell(hit, corner.left + hit.x, corner.top + hit.y);
});
document.addEventListener("focusout", (event) => {
  if (!event.target.matches?.(".panels") || kept) return;
  at = -1;
  hide();
});

// The address is read when it changes: the selection, and an anchor, which is kept beside it as `at`. Anchors of a
// format and of a matrix show its view.
function read() {
  const hash = location.hash.slice(1), isAnchor = hash && !hash.includes("=");
  if (!isAnchor) decode(hash);
  let anchor = isAnchor ? decodeURIComponent(hash) : (new URLSearchParams(hash).get("at") ?? "");
  const [, kind, name] = anchor.match(/^(format|matrix)-(.*)/s) ?? [];
  if (kind && byId(`figure-${kind}`)) [state[kind], anchor] = [name, `figure-${kind}`];
  if (isAnchor) history.replaceState(null, "", `#${encoded()}&${new URLSearchParams({ at: anchor })}`);
  refresh("filter");
  const target = byId(anchor);
  for (let holder = target; holder; holder = holder.parentElement) if (holder.tagName === "DETAILS") holder.open = true;
  target?.scrollIntoView();
}
addEventListener("hashchange", read);

// Printing: all sections are opened, all views drawn.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const details of closed) details.open = true;
  drawAll();
});
addEventListener("afterprint", () => closed.forEach((details) => (details.open = false)));

// On a narrow screen Contents and Filter start closed. A link of theirs marks what is at the top of the window.
for (const part of document.querySelectorAll(".side > details")) part.open = !matchMedia("(max-width: 60rem)").matches;
const links = new Map([...document.querySelectorAll(".side nav a")].map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver(
  (entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(target.id).setAttribute("aria-current", "true");
    }
  },
  { rootMargin: "-5% 0px -85% 0px" },
);
for (const id of links.keys()) if (byId(id)) seen.observe(byId(id));
read();
