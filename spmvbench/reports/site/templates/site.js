"use strict";
// Tables that sort, and the search over SEARCH (search.js): [kind, name, further words, address] of every page.

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (cell) => (cell.dataset.key === undefined ? cell.textContent : cell.dataset.key);
  for (const th of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = th.textContent;
    th.replaceChildren(button);
    button.addEventListener("click", () => {
      const now = th.getAttribute("aria-sort"),
        number = th.classList.contains("num");
      const down = now ? now === "ascending" : number;
      for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = (a, b) => {
        [a, b] = [key(a.cells[th.cellIndex]), key(b.cells[th.cellIndex])];
        if (a === "" || b === "") return (a === "") - (b === ""); // empty cells are last in both directions
        const order = number ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true });
        return down ? -order : order;
      };
      body.append(...[...body.rows].sort(compare));
    });
  }
}

const MOST = 30;
const input = document.getElementById("search"),
  list = document.getElementById("found");
// Names that begin with the words come first, then names with them, then other pages with them.
function matches(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const [kind, name, about, address] of SEARCH) {
    const low = name.toLowerCase(),
      all = `${kind} ${low} ${about.toLowerCase()}`;
    if (!words.every((word) => all.includes(word))) continue;
    const short = low.slice(low.lastIndexOf("/") + 1);
    const rank = low === words[0] || short === words[0] ? 0 : short.startsWith(words[0]) ? 1 : low.includes(words[0]) ? 2 : 3;
    found.push({ rank, kind, name, about, address });
  }
  return found.sort((a, b) => a.rank - b.rank || a.name.length - b.name.length || a.name.localeCompare(b.name));
}
input.addEventListener("input", () => {
  const found = matches(input.value);
  list.replaceChildren(
    ...found.slice(0, MOST).map(({ kind, name, about, address }) => {
      const item = document.createElement("li"),
        link = document.createElement("a"),
        more = document.createElement("span");
      link.href = document.body.dataset.root + address;
      link.textContent = name;
      more.textContent = ` ${kind}${about ? `: ${about}` : ""}`;
      item.append(link, more);
      return item;
    }),
  );
  list.hidden = !found.length;
  const shown = found.length > MOST ? `, the first ${MOST} shown` : "";
  document.getElementById("count").textContent = input.value.trim() ? `${found.length} found${shown}` : "";
});
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter") list.querySelector("a")?.click();
  if (event.key === "Escape") {
    input.value = "";
    input.dispatchEvent(new Event("input"));
  }
});
