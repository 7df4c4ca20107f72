drawAll();
const f = formats.name.indexOf("hyb");
put(byId("base"), f, "change");
drawAll();
const marked = (name) => new Set([...of(name).querySelectorAll("[data-f]")].map((e) => Number(e.dataset.f)));
return {
  said: of("speedup").querySelector("figcaption").textContent,
  has: marked("speedup").has(f),
  all: marked("gflops").has(f),
};
