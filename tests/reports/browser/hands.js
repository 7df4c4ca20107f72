// What the scripts beside this file share: places on the screen, and events as a hand would make them.
// In the first frame the observers of sizes and places are called, however late it is.
const twoFrames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
document.documentElement.style.scrollBehavior = "auto";
const of = (name) => byId(`figure-${name}`);
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
const put = (id, value) => {
  byId(id).value = value;
  byId(id).dispatchEvent(new Event("input", { bubbles: true }));
};
const column = (table, i) => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[i].textContent);
const heading = (table, field) => [...table.tHead.rows[0].cells].findIndex((th) => th.dataset.field === field);
const marked = (name) => [...new Set([...of(name).querySelectorAll(".panel .f[data-f]")].map((e) => formats.name[e.dataset.f]))];
function point(name, kind, which) {
  const picture = of(name).querySelector(".panel svg"),
    hit = picture.hits[which],
    box = picture.getBoundingClientRect();
  picture.dispatchEvent(new MouseEvent(kind, { clientX: box.left + hit.x, clientY: box.top + hit.y, bubbles: true }));
  return hit;
}
