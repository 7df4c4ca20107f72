const formats = document.querySelector("#formats table"),
  head = [...formats.tHead.rows[0].cells],
  out = [];
const at = head.findIndex((th) => th.textContent === "Bytes/nnz");
for (let i = 0; i < 2; i++) {
  click(head[at].firstChild);
  out.push({
    sort: head[at].getAttribute("aria-sort"),
    values: column(formats, at)
      .map(Number)
      .filter((v) => v > 0),
  });
}
const cells = byId("cells");
click(cells.tHead.rows[0].cells[2].firstChild);
out.push({
  sort: cells.tHead.rows[0].cells[2].getAttribute("aria-sort"),
  values: column(cells, 2).map((t) => Number(t.replaceAll(",", ""))),
});
const first = byId("where").textContent,
  names = column(cells, 0);
click(byId("next"));
out.push({ first, then: byId("where").textContent, other: column(cells, 0).every((name) => !names.includes(name)) });
const before = cells.tHead.rows[0].cells.length;
click(byId("all"));
out.push({ before, after: cells.tHead.rows[0].cells.length, formats: everyFormat.length });
const view = byId("view");
put(view, [...view.options].findIndex((option) => option.text === "bytes per nonzero, f32"), "change");
out.push({
  caption: cells.caption.textContent,
  rows: [...cells.tBodies[0].rows].map((row) => ({
    least: row.cells[7].textContent,
    best: [...row.querySelectorAll("td.best")].map((cell) => cell.textContent),
  })),
});
return out;
