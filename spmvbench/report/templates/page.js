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

// Numbers by size, words as people order them; what has no value stands last whichever way.
function compare(a, b, down) {
  const none = (v) => v === null || v === undefined || v === "";
  if (none(a) || none(b)) return none(a) - none(b);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (cell) => cell.dataset.key === undefined ? cell.textContent : cell.dataset.key === "" ? null : Number(cell.dataset.key);
  sortable(table.tHead.rows[0], (column, down) =>
    body.append(...[...body.rows].sort((a, b) => compare(key(a.cells[column]), key(b.cells[column]), down))));
}
for (const input of document.querySelectorAll("[data-filter]")) {
  const table = input.closest("section").querySelector("table.sortable");
  input.addEventListener("input", () => {
    const word = input.value.toLowerCase();
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(word);
  });
}

// The table of matrices: only one page of rows is in the document at a time.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const [view, find, all, table] = ["view", "find", "all", "cells"].map(byId);
  const PAGE = 50, FEW = 8;
  const BEFORE = ["Matrix", "Rows", "Nonzeros", "Mean row", "Longest row", "Row CV", "Best", "Its value"];
  const AFTER = ["Kind", "SHA-256"];
  const WORDS = new Set(["Matrix", "Best", ...AFTER]);
  let page = 0, sorted = null;

  data.views.forEach((v, i) => view.add(new Option(v.name, i)));
  if (!data.views.length || !data.matrices.length) {
    byId("grid").textContent = "No matrix was measured.";
    return;
  }
  all.parentElement.hidden = data.formats.length <= FEW;

  const text = (v) => v === null ? "-" : typeof v === "number"
    ? v.toLocaleString("en", Math.abs(v) < 1000 ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 0 }) : v;

  function best(cells, most) {
    let at = -1;
    cells.forEach((v, i) => {
      if (typeof v === "number" && v > 0 && (at < 0 || (most ? v > cells[at] : v < cells[at]))) at = i;
    });
    return at;
  }

  // Rates within the interval that times are measured to are equal.
  function leads(value, first, most) {
    return typeof value === "number" && (most ? value * data.tie >= first : value === first);
  }

  // A row is the matrix and its rows, its best format and that one's value, the formats, and where it comes from.
  function rows() {
    const { cells, most } = data.views[view.value], shown = all.checked ? data.formats.length : FEW;
    const word = find.value.toLowerCase();
    const found = [];
    data.matrices.forEach((about, i) => {
      const [name, kind, rows, nnz, mean, longest, cv, sha] = about;
      if (!`${name} ${kind}`.toLowerCase().includes(word)) return;
      const at = best(cells[i], most);
      const winner = at < 0 ? [null, null] : [data.formats[at], cells[i][at]];
      found.push({ first: winner[1], most, values: [name, rows, nnz, mean, longest, cv, ...winner, ...cells[i].slice(0, shown), kind, sha] });
    });
    if (sorted) {
      // A status in place of a number has no size.
      const size = (v) => sorted.words || typeof v === "number" ? v : null;
      found.sort((a, b) => compare(size(a.values[sorted.column]), size(b.values[sorted.column]), sorted.down));
    }
    return found;
  }

  function head() {
    const labels = [...BEFORE, ...data.formats.slice(0, all.checked ? undefined : FEW), ...AFTER];
    const row = document.createElement("tr");
    labels.forEach((label) => {
      const th = document.createElement("th");
      th.scope = "col";
      th.textContent = label;
      if (!WORDS.has(label)) th.className = "num";
      row.append(th);
    });
    table.tHead.replaceChildren(row);
    sorted = null;
    sortable(row, (column, down) => {
      sorted = { column, down, words: WORDS.has(labels[column]) };
      page = 0;
      fill();
    });
  }

  function fill() {
    const found = rows(), pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(page, pages - 1);
    table.caption.textContent = data.views[view.value].name + (all.checked || data.formats.length <= FEW ? "" : `: ${FEW} of ${data.formats.length} formats; the best is of all`);
    table.tBodies[0].replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(({ first, most, values }) => {
      const tr = document.createElement("tr");
      values.forEach((value, i) => {
        const cell = document.createElement(i ? "td" : "th");
        if (!i) cell.scope = "row";
        const inside = i >= BEFORE.length && i < values.length - AFTER.length;
        if (typeof value === "number") cell.className = inside && leads(value, first, most) ? "num best" : "num";
        else if (inside) cell.className = "not";
        cell.textContent = text(value);
        tr.append(cell);
      });
      return tr;
    }));
    const from = found.length ? page * PAGE + 1 : 0;
    byId("where").textContent = `${from} to ${Math.min(found.length, (page + 1) * PAGE)} of ${found.length} matrices`;
    byId("back").disabled = page === 0;
    byId("on").disabled = page === pages - 1;
  }

  view.addEventListener("change", fill);
  find.addEventListener("input", () => { page = 0; fill(); });
  all.addEventListener("change", () => { head(); fill(); });
  byId("back").addEventListener("click", () => { page -= 1; fill(); });
  byId("on").addEventListener("click", () => { page += 1; fill(); });
  head();
  fill();
})();

// On paper nothing can be opened, so everything is.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const details of closed) details.open = true;
});
addEventListener("afterprint", () => { for (const details of closed) details.open = false; });
