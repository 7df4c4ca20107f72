drawAll();
const hit = point("gflops", "pointermove", 3),
  lit = (f) => [...document.querySelectorAll(`.panel .dot[data-f="${f}"]`)];
await wait();
const other = everyFormat.find((f) => f !== hit.f && lit(f).length);
const look = (e) => Number(getComputedStyle(e).opacity);
const out = {
  tip: byId("tip").textContent,
  hidden: byId("tip").hidden,
  here: lit(hit.f).map(look),
  there: lit(other).map(look),
  name: formats.name[hit.f],
  figures: new Set(lit(hit.f).map((e) => e.closest("figure").id)).size,
  row: getComputedStyle(document.querySelector(`tr[data-f="${hit.f}"] > td`)).backgroundColor,
  plain: getComputedStyle(document.querySelector(`tr[data-f="${other}"] > td`)).backgroundColor,
};
state.pinned.delete(hit.f);
changed("marks");
const again = point("gflops", "click", 3);
out.pinned = state.pinned.has(again.f);
out.links = [...byId("tip").querySelectorAll("a")].map((a) => decodeURIComponent(a.hash));
document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
out.gone = byId("tip").hidden;
return out;
