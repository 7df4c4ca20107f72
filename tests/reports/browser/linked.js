// The pages that cells of both tables and a value's text lead to.
drawAll();
const to = (where) => [...where.querySelectorAll("a.page")].map((a) => a.getAttribute("href").split("#")[0]);
const cells = (id, i) => [...byId(id).tBodies[0].rows].flatMap((row) => to(row.cells[i]));
const [ranking, shown] = [byId("ranking"), byId("matrices-table")];
point("gflops", "click", 3);
return [
  [...ranking.tBodies[0].rows].map((row) => row.cells[0].querySelector("a.page").getAttribute("href")),
  cells("ranking", heading(ranking, "worst_matrix")),
  cells("matrices-table", 0),
  cells("matrices-table", heading(shown, "fastest")),
  to(byId("tip")),
];
