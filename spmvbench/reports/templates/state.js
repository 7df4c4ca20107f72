"use strict";
// The page's data, and what of it is shown: formats and matrices that pass the filter, highlighted formats, the format
// under the pointer, the baseline. Drawing code calls `view()`, and `onChange` to be told of changes.

const data = JSON.parse(document.getElementById("data").textContent);
const { formats, matrices, settings } = data;
const everyFormat = formats.name.map((_, f) => f),
  everyMatrix = matrices.name.map((_, m) => m);
const OK = data.statuses.indexOf("ok");

const cases = data.cases.setting.map((setting, i) => {
  const of = (column) => data.cases[column][i];
  const found = { setting, panel: settings[setting], f: of("format"), m: of("matrix"), status: of("status") };
  for (const column of ["gflops", "time", "bytes", "bound", "host", "device"]) found[column] = of(column);
  const nnz = matrices.nnz[found.m];
  found.program = data.cases.same?.[i] ?? found.f; // the format that represents it
  found.intensity = of("model") ? (2 * nnz) / of("model") : null;
  return found;
});

const state = {
  formats: new Set(everyFormat),
  matrices: new Set(everyMatrix),
  pinned: new Set(data.highlight),
  hovered: null,
  baseline: data.baseline,
};

const listeners = [];
const onChange = (listener) => listeners.push(listener);
let known = null;

// what: "filter" if other cases are shown, "marks" if other formats are highlighted, "hover".
function changed(what) {
  if (what === "filter") known = null;
  for (const listener of listeners) listener(what);
}

// The cases that figures show, of one operation, and what depends on all of them: ratio, speed-up, mean slowdown.
function view() {
  if (known) return known;
  const shown = cases.filter((c) => data.drawn[c.setting] && state.formats.has(c.f) && state.matrices.has(c.m));
  const ranked = shown.filter((c) => c.status === OK && formats.ranked[c.f]);
  const timed = ranked.filter((c) => c.gflops > 0);
  const key = (c) => c.setting * everyMatrix.length + c.m;
  const best = d3.rollup(timed, (part) => d3.min(part, (c) => c.time), key);
  // The baseline counts even if the filter hides it.
  const base = new Map(cases.filter((c) => c.f === state.baseline && c.status === OK).map((c) => [key(c), c]));
  for (const c of shown) {
    c.ratio = c.gflops > 0 && c.status === OK && formats.ranked[c.f] ? c.time / best.get(key(c)) : null;
    const before = base.get(key(c));
    c.speedup = c.ratio && before?.time > 0 && c.f !== state.baseline ? before.time / c.time : null;
    c.base = before;
  }
  const solved = d3.rollup(
    timed,
    (part) => new Set(part.map((c) => c.m)).size,
    (c) => c.setting,
  );
  // As analysis.ranking.mean_slowdowns: capped at `slowdownCap`, which failed and skipped matrices count as.
  const slowdowns = new Map();
  for (const [f, part] of d3.group(timed, (c) => c.f)) {
    const every = d3.sum(solved.values());
    const logs = d3.sum(part, (c) => Math.log(Math.min(c.ratio, data.slowdownCap)));
    slowdowns.set(f, Math.exp((logs + (every - part.length) * Math.log(data.slowdownCap)) / every));
  }
  known = { shown, ranked, timed, solved, slowdowns };
  return known;
}

// Of cases of one matrix and setting, one for each program: that of the name that represents it or, if that is not
// shown, the first.
function once(part) {
  const first = d3.rollup(
    d3.sort(part, (c) => c.f !== c.program),
    (same) => same[0],
    (c) => c.program,
  );
  return [...first.values()];
}

// Numbers as text.
const digits = (v, most = 3) => {
  if (v === null || v === undefined || Number.isNaN(v)) return "-";
  if (!Number.isFinite(v)) return "never";
  if (v === 0) return "0";
  return Math.abs(v) < 10 ** most ? String(Number(v.toPrecision(most))) : Math.round(v).toLocaleString("en");
};
const scaled = (v, units) => {
  const [unit, size] = units.find((u) => Math.abs(v) >= u[1] * 0.9995) ?? units.at(-1);
  return `${digits(v / size)}${unit}`;
};
const show = {
  plain: (v) => digits(v),
  count: (v) =>
    scaled(v, [
      ["G", 1e9],
      ["M", 1e6],
      ["k", 1e3],
      ["", 1],
    ]),
  time: (v) =>
    scaled(v, [
      [" s", 1],
      [" ms", 1e-3],
      [" us", 1e-6],
    ]),
  byte: (v) =>
    scaled(v, [
      [" GB", 1e9],
      [" MB", 1e6],
      [" kB", 1e3],
      [" B", 1],
    ]),
  share: (v) => `${digits(100 * v)} %`,
};

// Every format's marker, as style.py draws it: corners around (0, 0), the y axis pointing down.
const regular = (n, turn = 0) =>
  d3.range(n).map((i) => {
    const angle = (2 * Math.PI * i) / n - Math.PI / 2 + turn;
    return [1.1 * Math.cos(angle), 1.1 * Math.sin(angle)];
  });
const PLUS = [
  [-1.1, -0.4],
  [-0.4, -0.4],
  [-0.4, -1.1],
  [0.4, -1.1],
  [0.4, -0.4],
  [1.1, -0.4],
  [1.1, 0.4],
  [0.4, 0.4],
  [0.4, 1.1],
  [-0.4, 1.1],
  [-0.4, 0.4],
  [-1.1, 0.4],
];
const CORNERS = {
  s: [
    [-0.9, -0.9],
    [0.9, -0.9],
    [0.9, 0.9],
    [-0.9, 0.9],
  ],
  "^": [
    [0, -1.1],
    [1.1, 0.9],
    [-1.1, 0.9],
  ],
  v: [
    [0, 1.1],
    [1.1, -0.9],
    [-1.1, -0.9],
  ],
  "<": [
    [-1.1, 0],
    [0.9, -1.1],
    [0.9, 1.1],
  ],
  ">": [
    [1.1, 0],
    [-0.9, -1.1],
    [-0.9, 1.1],
  ],
  D: [
    [0, -1.25],
    [1.25, 0],
    [0, 1.25],
    [-1.25, 0],
  ],
  d: [
    [0, -1.3],
    [0.75, 0],
    [0, 1.3],
    [-0.75, 0],
  ],
  p: regular(5),
  h: regular(6),
  P: PLUS,
  X: PLUS.map(([x, y]) => [(x - y) * Math.SQRT1_2, (x + y) * Math.SQRT1_2]),
  "*": d3.range(10).map((i) => {
    const r = i % 2 ? 0.6 : 1.5,
      angle = (Math.PI * i) / 5 - Math.PI / 2;
    return [r * Math.cos(angle), r * Math.sin(angle)];
  }),
};
function marker(name, x, y, r) {
  if (!(name in CORNERS))
    return `M${(x - r).toFixed(1)},${y.toFixed(1)}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`;
  return `M${CORNERS[name].map(([u, v]) => `${(x + r * u).toFixed(1)},${(y + r * v).toFixed(1)}`).join("L")}Z`;
}

const SVG = "http://www.w3.org/2000/svg";
function svg(name, attributes = {}, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in element && key !== "style") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}
// A format's mark as an icon.
function icon(f) {
  const picture = svg("svg", { class: "icon", viewBox: "-9 -9 18 18", "aria-hidden": "true" });
  picture.append(
    svg("path", {
      class: `colored${formats.filled[f] ? "" : " hollow"}`,
      "data-f": f,
      d: marker(formats.marker[f], 0, 0, 5.5),
    }),
  );
  return picture;
}

const formatAnchor = (f) => `#format-${encodeURIComponent(formats.name[f])}`;
const matrixAnchor = (m) => `#matrix-${encodeURIComponent(matrices.name[m])}`;
