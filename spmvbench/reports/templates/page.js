// Tables, controls, tooltips, anchors and printing.

// Headings of a table become buttons that sort; the first click shows the best number, or the first word, on top.
function sortable(table, onSort) {
  for (const th of table.tHead.rows[0].cells) {
    const button = html("button", { type: "button" }, th.textContent);
    th.replaceChildren(button);
    button.addEventListener("click", () => {
      const now = th.getAttribute("aria-sort");
      onSort(th.cellIndex, now ? now === "ascending" : th.matches(".num:not(.low)"));
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
  const [one, other] = [a, b].map(String),
    order = typeof a === "number" && typeof b === "number" ? a - b : one.localeCompare(other, "en", { numeric: true });
  return down ? -order : order;
}
for (const table of document.querySelectorAll("table.sortable")) {
  const number = (text) => (text === "" ? null : Number(text)),
    key = ({ dataset, textContent }) => ("key" in dataset ? number(dataset.key) : textContent);
  sortable(table, (column, down) => {
    const order = (a, b) => compare(key(a.cells[column]), key(b.cells[column]), down);
    sortedBy(table, column, down);
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
  });
}
for (const input of document.querySelectorAll("[data-filter]"))
  input.addEventListener("input", () => {
    for (const row of input.closest("section").querySelector("table.sortable").tBodies[0].rows)
      row.hidden = !row.textContent.toLowerCase().includes(input.value.toLowerCase());
  });

// A name leads to its view; in a site, the arrow after it to its page.
function link(kind, { name }, i, ...before) {
  const view = html("a", { href: `#${kind}-${encodeURIComponent(name[i])}` }, ...before, name[i]),
    page = data.pages?.[kind][i], title = `page of ${name[i]}`;
  return html("span", {}, view, page ? html("a", { href: page, className: "page", title, "aria-label": title }) : "");
}
const formatLink = (f) => link("format", formats, f, icon(f));
const matrixLink = (m) => link("matrix", matrices, m);
// The ranking and the table of matrices: of a heading, the value of a cell, and its text if that is a number.
const SHOWN = { coverage: percent, mean_slowdown: times, worst_slowdown: times, margin: times };
const NAMED = {
  kernel: ({ f, same_as: same }) => (same !== null ? `= ${formats.name[same]}` : formats.project[f] ? "project" : ""),
  worst_matrix: (line) => matrices.name[line.worst_matrix] ?? "",
  fastest: ({ f }) => formats.name[f] ?? "",
};
const LINKED = {
  worst_matrix: ({ worst_matrix: m }) => [matrixLink(m)],
  fastest: ({ f, tied }) => {
    const names = [f, ...tied.slice(0, 2)].flatMap((f, i) => [i ? ", " : "", formatLink(f)]);
    return tied.length > 2 ? [...names, ` and ${tied.length - 2} more`] : names;
  },
};
const counted = (n, word) => `${n} ${n === 1 ? word : word === "matrix" ? "matrices" : `${word}s`}`;
const tables = {
  ranking: {
    items: () => statistic("coverage"),
    said: (lines) => `${counted(lines.length, "format")} on ${counted(chosenMatrices().size, "matrix")}`,
    head: ({ f, label, mean_slowdown: v }) =>
      ({ id: `format-${label}`, "data-f": f, style: `--bar:${Math.log(v) / Math.log(data.cap)}`, first: formatLink(f) }),
  },
  "matrices-table": {
    items: () =>
      d3.map(chosenMatrices(), (m) => {
        const about = Object.entries(matrices).map(([field, column]) => [field, column[m]]);
        return { m, ...Object.fromEntries(about), ...statistic("best").get(m) };
      }),
    said: (lines) => counted(lines.length, "matrix"),
    head: ({ m, name }) => ({ id: `matrix-${name}`, first: matrixLink(m) }),
  },
};
const LINES = 300; // of a table, before "all" is pressed
function fill(id) {
  const table = byId(id), headings = [...table.tHead.rows[0].cells], [sorted, column, way] = state.sort.split(" ");
  const value = headings.map((th) => NAMED[th.dataset.field] ?? ((line) => line[th.dataset.field] ?? ""));
  const show = headings.map((th) => (th.classList.contains("num") ? SHOWN[th.dataset.field] ?? digits : null));
  const place = sorted === id ? headings.findIndex((th) => th.dataset.field === column) : -1;
  sortedBy(table, place, way === "down");
  let lines = tables[id].items();
  if (place >= 0) lines = [...lines].sort((a, b) => compare(value[place](a), value[place](b), way === "down"));
  const row = (line) => {
    const { first, ...attributes } = tables[id].head(line);
    const inside = (i, found) =>
      found === "" ? [] : LINKED[headings[i].dataset.field]?.(line) ?? [show[i] ? show[i](found) : found];
    const cell = (i) => html("td", { className: show[i] ? "num" : "" }, ...inside(i, value[i](line)));
    return html("tr", attributes, html("th", { scope: "row" }, first), ...d3.range(1, headings.length).map(cell));
  };
  const shown = state.all ? lines : lines.slice(0, LINES), rest = lines.length - shown.length;
  table.tBodies[0].replaceChildren(...shown.map(row));
  for (const th of table.querySelectorAll("[data-field=gflops]")) th.firstChild.textContent = unit();
  table.caption.textContent = `${state.setting}: ${tables[id].said(lines)}${rest ? `, the first ${LINES}` : ""}`;
  if (lines.length > LINES) table.caption.append(" ", everything(lines.length));
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
const options = (id, values) => values.forEach((value) => byId(id).add(new Option(value)));
options("setting", settings);
for (const key of ["kind", "family"]) options(key, d3.sort(new Set(matrices[key].filter(Boolean))));
options("techniques", d3.sort(new Set(formats.family.filter(Boolean))));
for (const [key, { name }] of [["format", formats], ["matrix", matrices]]) if (byId(key)) options(key, d3.sort(name));
const CONTROLS = Object.keys(FIELDS).filter(byId);
for (const key of CONTROLS)
  byId(key).addEventListener("input", () => {
    state[key] = byId(key).value.trim();
    changed("filter", key);
  });
const [technique, word] = ["techniques", "word"].map(byId);
const listed = ({ f }) =>
  ["", formats.family[f]].includes(technique.value) && formats.name[f].includes(word.value.trim().toLowerCase());
for (const input of [technique, word])
  input.addEventListener("input", () => items.forEach((entry) => (entry.item.hidden = !listed(entry))));
function only(some) {
  state.hidden = d3.difference(everyFormat, some);
  changed("filter");
}
byId("only").addEventListener("click", () => only(items.filter(listed).map(({ f }) => f)));
byId("lit").addEventListener("click", () => only(state.pinned));
byId("same").addEventListener("click", () => only(everyFormat.filter((f) => formats.bits[f])));
byId("every").addEventListener("click", () => only(everyFormat));
byId("reset").addEventListener("click", () => changed("filter", decode("")));
byId("csv").addEventListener("click", () => {
  const plain = (name) => name.replace(/^[=+@-]/, "'$&"); // no formula of a spreadsheet
  const lines = rows().map(({ f, m, status, time, rate, bytes, bound }) => {
    const [format, matrix] = [formats.name[f], matrices.name[m]].map(plain);
    const [t, r, b, most] = [[time, 7], [rate, 7], [bytes, 4], [bound, 4]].map(([v, n]) => v && Number(v.toPrecision(n)));
    return { format, matrix, status: data.statuses[status], time: t, rate: r, bytes: b, bound: most };
  });
  byId("csv").href = URL.createObjectURL(new Blob([d3.csvFormat(lines), "\n"], { type: "text/csv" }));
});
function show() {
  for (const key of CONTROLS) if (state[key] || !(key in views)) byId(key).value = state[key]; // a view has its default
  for (const { f, box, button } of items) {
    box.checked = !state.hidden.has(f);
    button.setAttribute("aria-pressed", state.pinned.has(f));
  }
  const of = (some, every, word) => `${some} of ${counted(every.length, word)}`, shown = everyFormat.length - state.hidden.size,
    words = [of(shown, everyFormat, "format"), of(chosenMatrices().size, everyMatrix, "matrix")];
  byId("selected").textContent = words.join(", ");
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
  const sorted = (hits) => d3.sort(hits, (h) => (h.w ? h.y : h.x), (h) => h.x),
    pictures = [...box.querySelectorAll(".panel svg")];
  const every = pictures.flatMap((picture) => sorted(picture.hits).map((hit) => ({ picture, hit })));
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
  const hash = location.hash.slice(1), isAnchor = hash && (!hash.includes("=") || /^(format|matrix)-/.test(hash));
  if (!isAnchor) decode(hash);
  let anchor = new URLSearchParams(isAnchor ? `at=${hash}` : hash).get("at") ?? "";
  const [, kind, name] = anchor.match(/^(format|matrix)-(.*)/s) ?? [];
  if (kind && byId(`figure-${kind}`)) [state[kind], anchor] = [name, `figure-${kind}`];
  const whole = new URLSearchParams([...new URLSearchParams(encoded()), ["at", anchor]]);
  if (isAnchor) history.replaceState(null, "", `#${whole}`);
  refresh("filter");
  byId(anchor)?.scrollIntoView();
}
addEventListener("hashchange", read);

// Printing: sections are opened but for those on demand, all views drawn.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open], .on-demand)")];
  for (const details of closed) details.open = true;
  drawAll();
});
addEventListener("afterprint", () => closed.forEach((details) => (details.open = false)));

// On a narrow screen Contents and Filter start closed.
for (const part of document.querySelectorAll(".side > details")) part.open = !matchMedia("(max-width: 60rem)").matches;
read();
