// The page's data, the reader's selection, and its address: a link, a reload and Back show the same.

const data = JSON.parse(document.getElementById("data").textContent);
const { formats, matrices, settings } = data;
const everyFormat = formats.name.map((_, f) => f), everyMatrix = matrices.name.map((_, m) => m);
const statistics = statisticsOf(data);
const { OK } = statistics;
// Columns of numbers, packed by views.py.
function unpacked([kind, base64, low, step]) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const column = new globalThis[kind](bytes.buffer);
  if (step === undefined) return column;
  return new Float64Array(column).map((n) => (n > 1 ? Math.exp(low + (n - 2) * step) : n ? 0 : NaN));
}
const columns = Object.fromEntries(Object.entries(data.cases).map(([name, column]) => [name, unpacked(column)]));
const orNull = (v) => (Number.isNaN(v) ? null : v);
const cases = Array.from(columns.format, (f, i) => ({
  i, setting: columns.setting[i], f, m: columns.matrix[i], status: columns.status[i], program: columns.program[i] || null,
  time: orNull(columns.time[i]), rate: orNull(columns.rate[i]), bytes: orNull(columns.bytes[i]),
  error: orNull(columns.error[i]), bound: orNull(columns.bound[i]), ready: orNull(columns.ready[i]),
}));

// What the address holds, with the values that it leaves out. least, most: of nonzeros; even, uneven: of the row CV.
const FIELDS = {
  setting: settings[0], name: "", kind: "", family: "", least: "", most: "", even: "", uneven: "",
  matrix: "", format: "", sort: "", all: "",
};
const state = { ...FIELDS, hidden: new Set(), pinned: new Set(data.highlight), hovered: null };
const place = {
  f: new Map(formats.name.map((name, f) => [name, f])),
  m: new Map(matrices.name.map((name, m) => [name, m])),
};
const namesOf = (some) => some.map((f) => formats.name[f]);

function encoded() {
  const found = new URLSearchParams();
  for (const [key, plain] of Object.entries(FIELDS)) if (state[key] !== plain) found.append(key, state[key]);
  const list = (key, names) => (names.length ? names : [""]).forEach((name) => found.append(key, name));
  const shown = everyFormat.filter((f) => !state.hidden.has(f));
  if (shown.length <= state.hidden.size) list("only", namesOf(shown));
  else if (state.hidden.size) list("without", namesOf([...state.hidden]));
  if (d3.difference(state.pinned, data.highlight).size || state.pinned.size !== data.highlight.length)
    list("highlight", namesOf([...state.pinned]));
  return found.toString();
}
function decode(text) {
  const given = new URLSearchParams(text);
  const list = (key) => given.getAll(key).flatMap((name) => place.f.get(name) ?? []);
  for (const [key, plain] of Object.entries(FIELDS)) state[key] = given.get(key) ?? plain;
  if (!settings.includes(state.setting)) state.setting = FIELDS.setting;
  state.hidden = given.has("only") ? d3.difference(everyFormat, list("only")) : new Set(list("without"));
  state.pinned = new Set(given.has("highlight") ? list("highlight") : data.highlight);
}

// Listeners hear "hover" if another format is under the pointer, "marks" if others are highlighted, else "filter".
const listeners = [], onChanged = (listener) => listeners.push(listener);
function refresh(what) {
  if (what === "filter") known.clear();
  for (const listener of listeners) listener(what);
}
// by: the control that was used; its next change replaces the entry in the browser's history.
let last = null;
function changed(what, by = null) {
  if (encoded() !== location.hash.slice(1).replace(/&?at=[^&]*$/, "")) {
    history[by && by === last ? "replaceState" : "pushState"](null, "", `#${encoded()}`);
    last = by;
  }
  refresh(what);
}

// The rows of the selection, and statistics of them, computed once.
const known = new Map();
function once(key, compute) {
  if (!known.has(key)) known.set(key, compute());
  return known.get(key);
}
const statistic = (name) => once(name, () => statistics[name](rows()));
const chosenMatrices = () =>
  once("matrices", () => {
    const words = state.name.toLowerCase(),
      within = (v, low, high) => (low === "" || v >= Number(low)) && (high === "" || v <= Number(high));
    return new Set(
      everyMatrix.filter(
        (m) =>
          `${matrices.name[m]} ${matrices.kind[m]}`.toLowerCase().includes(words) &&
          (!state.kind || matrices.kind[m] === state.kind) &&
          (!state.family || matrices.family[m] === state.family) &&
          within(matrices.nnz[m], state.least, state.most) &&
          within(matrices.cv[m], state.even, state.uneven),
      ),
    );
  });
const rows = () =>
  once("rows", () => {
    const setting = settings.indexOf(state.setting);
    return cases.filter((c) => c.setting === setting && !state.hidden.has(c.f) && chosenMatrices().has(c.m));
  });
const unit = () => data.units[settings.indexOf(state.setting)];

// Numbers as text, as tables.py writes them.
function digits(v, most = 3) {
  if (v === null || v === undefined || Number.isNaN(v)) return "-";
  if (v === 0) return "0";
  return Math.abs(v) < 10 ** most ? String(Number(v.toPrecision(most))) : Math.round(v).toLocaleString("en");
}
function scaled(v, ...units) {
  const [suffix, size] = units.find((u) => Math.abs(v) >= u[1] * 0.9995) ?? units.at(-1);
  return `${digits(v / size)}${suffix}`;
}
const count = (v) => scaled(v, ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]);
const seconds = (v) => (v ? scaled(v, [" s", 1], [" ms", 1e-3], [" us", 1e-6]) : "-");
const percent = (v) => `${(v > 0 && v < 1 ? Math.min(Math.max(Math.round(v * 1000), 1), 999) : Math.round(v * 1000)) / 10} %`;
const times = (v) => (Number.isNaN(v) ? "-" : `${v < 10 ? v.toFixed(2) : digits(v)}x`);

const byId = (id) => document.getElementById(id);
function svg(name, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
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

// A format's mark as the path of its marker, and as an icon.
function marker(f, x, y, r) {
  const corners = data.markers[formats.marker[f]], half = `a${r},${r} 0 1,0`;
  if (!corners.length) return `M${(x - r).toFixed(1)},${y.toFixed(1)}${half} ${2 * r},0${half} ${-2 * r},0`;
  return `M${corners.map(([u, v]) => `${(x + r * u).toFixed(1)},${(y + r * v).toFixed(1)}`).join("L")}Z`;
}
const hollow = (f) => (formats.filled[f] ? "" : " hollow"),
  dot = (f, d, kind = "f dot") => svg("path", { class: kind + hollow(f), "data-f": f, d });
function icon(f) {
  const picture = svg("svg", { class: "icon", viewBox: "-9 -9 18 18", "aria-hidden": "true" });
  picture.append(dot(f, marker(f, 0, 0, 5.5), "colored"));
  return picture;
}
