drawAll();
const bad = [];
for (const element of document.querySelectorAll(
  "button, input, select, summary, a[href], .panels, .scroll, #formats-list",
)) {
  if (!element.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true }) || element.disabled) continue;
  element.focus();
  if (document.activeElement !== element) bad.push(element.outerHTML.slice(0, 90));
  else if (getComputedStyle(element).outlineStyle === "none" && element.matches(":focus-visible"))
    bad.push(`no outline: ${element.outerHTML.slice(0, 90)}`);
}
const nameless = [...document.querySelectorAll("button, input, select, .panels, .scroll")].filter(
  (e) => !(e.textContent.trim() && e.tagName === "BUTTON") && !e.getAttribute("aria-label") && !e.labels?.length,
);
const panels = of("gflops").querySelector(".panels"),
  press = (key) => panels.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
panels.focus();
press("ArrowRight");
const first = byId("tip").textContent;
press("ArrowRight");
const second = byId("tip").textContent,
  lit = state.hovered,
  before = state.pinned.has(lit);
press("Enter");
return {
  bad,
  nameless: nameless.map((e) => e.outerHTML.slice(0, 90)),
  first,
  second,
  toggled: state.pinned.has(lit) !== before,
};
