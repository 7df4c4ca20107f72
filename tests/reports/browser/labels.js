drawAll();
await wait();
const bad = [];
for (const picture of document.querySelectorAll(".panel svg")) {
  const name = picture.closest("figure").id,
    box = picture.getBoundingClientRect();
  const texts = [...picture.querySelectorAll("text:not(.number)")].filter((t) => t.textContent.trim());
  const boxes = texts.map((t) => ({
    text: t.firstChild.textContent,
    at: t.getBoundingClientRect(),
    turned: /rotate/.test(t.getAttribute("transform")),
  }));
  for (const { text, at } of boxes) {
    if (at.left < box.left - 3 || at.right > box.right + 3 || at.top < box.top - 3 || at.bottom > box.bottom + 3)
      bad.push(`${name}: ${text} leaves`);
  }
  const flat = boxes.filter((b) => !b.turned);
  flat.forEach((a, i) =>
    flat.slice(0, i).forEach((b) => {
      const [one, other] = [a.at, b.at];
      if (
        one.left < other.right - 1 &&
        other.left < one.right - 1 &&
        one.top < other.bottom - 3 &&
        other.top < one.bottom - 3
      )
        bad.push(`${name}: ${a.text} meets ${b.text}`);
    }),
  );
}
for (const axis of document.querySelectorAll('.panel [aria-label$="-axis tick"]')) {
  const name = axis.getAttribute("aria-label"), texts = axis.parentNode.querySelectorAll(`[aria-label="${name} label"] text`);
  const said = [...texts].filter((t) => t.textContent.trim()).length;
  if (said !== axis.children.length) bad.push(`${axis.closest("figure").id}: ${said} of ${axis.children.length} ticks are labelled`);
}
const empty = figures.filter((figure) => !figure.querySelector(".panel svg .f, .panel svg path, .panel svg rect"));
return {
  bad,
  empty: empty.map((figure) => figure.id),
  figures: figures.length,
  wide: document.documentElement.scrollWidth,
};
