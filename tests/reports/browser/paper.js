dispatchEvent(new Event("beforeprint"));
const main = document.querySelector("main");
const closed = () => main.querySelectorAll("details:not([open], .on-demand)").length;
const out = {
  closed: closed(),
  undrawn: figures.filter((figure) => !figure.querySelector(".panel")).length,
  wide: [...main.querySelectorAll("table")].filter((t) => t.scrollWidth > main.clientWidth + 1).map((t) => `${t.caption.textContent}: ${t.scrollWidth} of ${main.clientWidth}`),
  tall: [...main.querySelectorAll("tbody tr")].filter((row) => row.offsetHeight > 200).map((row) => row.textContent.slice(0, 80)),
  hidden: [...document.querySelectorAll(".side, .tools, .on-demand")].filter((e) => e.checkVisibility()).length,
};
dispatchEvent(new Event("afterprint"));
return { ...out, again: main.querySelectorAll("details:not([open])").length };
