dispatchEvent(new Event("beforeprint"));
const main = document.querySelector("main");
const closed = () => main.querySelectorAll("details:not([open])").length;
const out = {
  closed: closed(),
  undrawn: figures.filter((figure) => !figure.querySelector(".panel")).length,
  wide: [...main.querySelectorAll("table")].filter((t) => t.scrollWidth > main.clientWidth + 1).map((t) => `${t.caption.textContent}: ${t.scrollWidth} of ${main.clientWidth}`),
  hidden: [...document.querySelectorAll(".side, .tools")].filter((e) => e.checkVisibility()).length,
};
dispatchEvent(new Event("afterprint"));
return { ...out, again: closed() };
