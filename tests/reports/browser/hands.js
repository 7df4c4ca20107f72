// What the scripts beside this file share: positions on the screen, and events as a hand would make them.
const wait = (ms = 200) => new Promise((done) => setTimeout(done, ms));
document.documentElement.style.scrollBehavior = "auto";
const of = (name) => document.getElementById(`figure-${name}`);
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const put = (element, value, kind = "input") => {
  element.value = value;
  element.dispatchEvent(new Event(kind, { bubbles: true }));
};
const byId = (id) => document.getElementById(id);
function point(name, kind, which = 0) {
  const picture = of(name).querySelector(".panel svg"),
    hit = picture.hits[which],
    box = picture.getBoundingClientRect();
  const at = { clientX: box.left + hit.x, clientY: box.top + hit.y, bubbles: true };
  picture.dispatchEvent(new MouseEvent(kind, at));
  return hit;
}
const column = (table, i) => [...table.tBodies[0].rows].map((row) => row.cells[i].textContent);
