drawAll();
await twoFrames();
const bad = [];
for (const picture of document.querySelectorAll(".panel svg")) {
  const name = picture.closest("figure").id,
    box = picture.getBoundingClientRect();
  const boxes = [...picture.querySelectorAll("text:not(.number)")]
    .filter((t) => t.textContent.trim())
    .map((t) => ({ text: t.firstChild.textContent, at: t.getBoundingClientRect(), turned: /rotate/.test(t.getAttribute("transform")) }));
  for (const { text, at } of boxes)
    if (at.left < box.left - 3 || at.right > box.right + 3 || at.top < box.top - 3 || at.bottom > box.bottom + 3)
      bad.push(`${name}: ${text} leaves`);
  const flat = boxes.filter((b) => !b.turned);
  flat.forEach(({ text, at: a }, i) =>
    flat.slice(0, i).forEach(({ text: other, at: b }) => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3) bad.push(`${name}: ${text} meets ${other}`);
    }),
  );
}
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
return {
  bad,
  empty: figures.filter((figure) => !figure.querySelector(".panel svg .f, .panel svg path[fill]")).map((figure) => figure.id),
  views: figures.map((figure) => figure.dataset.view),
  drawn: document.querySelectorAll(".drawn svg").length,
  wide: document.documentElement.scrollWidth,
  twice: ids.filter((id, i) => ids.indexOf(id) !== i),
  lost: [...document.querySelectorAll(".drawn use, .drawn [clip-path]")].filter((e) => {
    const id = e.getAttribute("href") ?? e.getAttribute("clip-path").slice(4, -1);
    return !byId(id.slice(1));
  }).length,
};
