drawAll();
const marks = () =>
  figures.map((figure) => new Set([...figure.querySelectorAll("[data-f]")].map((e) => e.dataset.f)).size);
const out = { before: marks(), said: byId("selected").textContent };
put(byId("word"), "csr");
click(byId("only"));
drawAll();
const names = (root) => [...new Set([...root.querySelectorAll(".f[data-f]")].map((e) => formats.name[e.dataset.f]).filter(Boolean))];
out.chosen = byId("selected").textContent;
out.foreign = figures.flatMap(names).filter((name) => !name.includes("csr"));
out.rows =
  column(document.querySelector("#formats table"), 0).length -
  document.querySelectorAll("#formats table:first-of-type tbody tr[hidden]").length;
const shown = view();
out.best = d3.min(shown.timed, (c) => c.ratio);
put(byId("group"), "SNAP", "change");
put(byId("least"), 1e5);
drawAll();
out.matrices = [...new Set(view().shown.map((c) => matrices.name[c.m]))];
out.table = column(byId("cells"), 0);
out.warned = [...document.querySelectorAll(".of-all")].every((note) => !note.hidden);
click(byId("reset"));
drawAll();
out.again = byId("selected").textContent;
out.after = marks();
return out;
