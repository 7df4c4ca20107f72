const formatsOf = () =>
  new Set([...document.querySelectorAll("#matrices table:not(.replaced) thead th")].map((th) => th.textContent));
const widest = () =>
  Math.max(...[...document.querySelectorAll("main table:not(.replaced)")].map((t) => t.rows[0]?.cells.length ?? 0));
const before = widest();
dispatchEvent(new Event("beforeprint"));
const out = {
  before,
  widest: widest(),
  missing: formats.name.filter((name, f) => formats.ranked[f] && !formatsOf().has(name)),
  closed: document.querySelectorAll("main details:not([open])").length,
  undrawn: figures.filter((f) => !f.querySelector(".panel")).length,
};
const heads = (table) => [...table.rows[0].cells].map((cell) => cell.textContent);
out.lost = [...document.querySelectorAll("table.replaced:not(#cells)")].filter((table) => {
  const parts = [];
  for (let next = table.nextElementSibling; next?.matches("table.part"); next = next.nextElementSibling)
    parts.push(...heads(next));
  return heads(table).some((text) => !parts.includes(text));
}).length;
out.replaced = document.querySelectorAll("table.replaced").length;
dispatchEvent(new Event("afterprint"));
out.after = [widest(), document.querySelectorAll("table.part").length];
return out;
