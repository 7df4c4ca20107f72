const m = everyMatrix.at(-1),
  f = everyFormat.find((f) => formats.name[f] === "hyb");
follow(matrixAnchor(m));
await wait();
const row = document.querySelector("tr.sought"),
  at = row.getBoundingClientRect();
follow(formatAnchor(f));
await wait();
const format = byId(`format-hyb`).getBoundingClientRect();
return {
  row: row.cells[0].textContent,
  m: matrices.name[m],
  page: byId("where").textContent,
  seen: [at.top >= 0 && at.bottom <= innerHeight, format.top >= 0 && format.bottom <= innerHeight],
};
