drawAll();
const hit = point("gflops", "pointermove", 3),
  lit = (f) => [...document.querySelectorAll(`.panel .dot[data-f="${f}"]`)],
  look = (e) => Number(getComputedStyle(e).opacity);
const other = everyFormat.find((f) => f !== hit.f && lit(f).length);
const out = {
  tip: byId("tip").textContent,
  hidden: byId("tip").hidden,
  here: lit(hit.f).map(look),
  there: lit(other).map(look),
  name: formats.name[hit.f],
};
const pinned = state.pinned.has(hit.f);
const again = point("gflops", "click", 3);
out.toggled = state.pinned.has(again.f) !== pinned;
out.links = [...byId("tip").querySelectorAll("a")].map((a) => decodeURIComponent(a.hash));
document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
out.gone = byId("tip").hidden;
const panels = of("gflops").querySelector(".panels"),
  press = (key) => panels.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
panels.focus();
press("ArrowRight");
out.first = byId("tip").textContent;
press("ArrowRight");
out.second = byId("tip").textContent;
const before = state.pinned.has(state.hovered);
press("Enter");
out.entered = state.pinned.has(state.hovered) !== before;
return out;
