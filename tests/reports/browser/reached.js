// Every control: reached by the keyboard, with an outline there, and with a name.
if (typeof drawAll !== "undefined") drawAll();
for (const details of document.querySelectorAll("details")) details.open = true;
const controls = [...document.querySelectorAll("button, input, select, summary, a[href], [tabindex]")];
const bad = [];
for (const element of controls) {
  if (!element.checkVisibility({ visibilityProperty: true }) || element.disabled) continue;
  element.focus();
  if (document.activeElement !== element) bad.push(element.outerHTML.slice(0, 90));
  else if (getComputedStyle(element).outlineStyle === "none" && element.matches(":focus-visible"))
    bad.push(`no outline: ${element.outerHTML.slice(0, 90)}`);
}
const named = (e) => (e.matches("button, summary, a") && e.textContent.trim()) || e.getAttribute("aria-label") || [...(e.labels ?? [])].some((label) => label.textContent.trim());
return { controls: controls.length, bad, nameless: controls.filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 90)) };
