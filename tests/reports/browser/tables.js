const ranking = byId("ranking"),
  out = [];
const at = heading(ranking, "mean_slowdown");
for (let i = 0; i < 2; i++) {
  click(ranking.tHead.rows[0].cells[at].firstChild);
  out.push({ sort: ranking.tHead.rows[0].cells[at].getAttribute("aria-sort"), values: column(ranking, at).map(Number.parseFloat).filter((v) => v > 0) });
}
const cells = byId("matrices-table");
const nnz = heading(cells, "nnz");
click(cells.tHead.rows[0].cells[nnz].firstChild);
out.push({ sort: cells.tHead.rows[0].cells[nnz].getAttribute("aria-sort"), values: column(cells, nnz).map((t) => Number(t.replaceAll(",", ""))) });
const reasons = document.querySelector("#coverage table"),
  many = column(reasons, 0).length;
click(reasons.tHead.rows[0].cells[2].firstChild);
out.push({ sort: reasons.tHead.rows[0].cells[2].getAttribute("aria-sort"), values: column(reasons, 2).map(Number) });
const word = document.querySelector("[data-filter]");
word.value = "csr5";
word.dispatchEvent(new Event("input"));
out.push({ many, some: column(reasons, 0) });
byId("csv").addEventListener("click", (event) => event.preventDefault());
click(byId("csv"));
const text = await (await fetch(byId("csv").href)).text();
out.push({ lines: text.trim().split("\n"), cases: rows().length });
return out;
