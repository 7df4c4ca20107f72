// What a reader sees of a selection: to compare pages with.
drawAll();
return {
  said: byId("selected").textContent,
  ranking: [...byId("ranking").tBodies[0].rows].map((row) => row.textContent),
  matrices: column(byId("matrices-table"), 0),
  sorted: [...document.querySelectorAll("[aria-sort]")].map((th) => [th.dataset.field, th.getAttribute("aria-sort")]),
  controls: CONTROLS.map((id) => byId(id).value),
  pinned: namesOf([...state.pinned]),
  views: figures.map((figure) => figure.querySelector(".panels").textContent),
  address: location.hash,
};
