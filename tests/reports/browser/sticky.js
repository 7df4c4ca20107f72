scrollTo(0, document.body.scrollHeight / 2);
await wait();
const links = [...document.querySelectorAll(".side nav a")],
  side = document.querySelector(".side").getBoundingClientRect();
const scroll = byId("cells").closest(".scroll");
click(byId("all"));
scroll.scrollIntoView();
scroll.scrollTo(300, 300);
await wait();
const box = scroll.getBoundingClientRect(),
  head = byId("cells").tHead.rows[0].cells[4].getBoundingClientRect(),
  first = byId("cells").tBodies[0].rows[20].cells[0].getBoundingClientRect();
return {
  missing: [...document.querySelectorAll("figure")].filter((f) => !links.some((a) => a.hash === `#${f.id}`)).length,
  top: side.top,
  head: Math.abs(head.top - box.top),
  first: Math.abs(first.left - box.left),
  moved: [scroll.scrollTop, scroll.scrollLeft],
};
