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
"use strict";
// Figures drawn with Observable Plot, which gives scales, axes and grids. Marks on them are drawn below,
// one path per format and panel: fast for thousands of points, and one CSS rule highlights a format.

// Rows of a panel before "all" is pressed; most formats that are all drawn in colour; width of a letter.
const FEW = 40,
  COLORED = 10,
  TEXT = 6.4;

// The rows of a chart: its table if it has one, else the cases that are shown.
function rowsOf(chart) {
  if (!chart.columns) return view().timed;
  chart.rows ??= decoded(chart.columns);
  return chart.rows.filter((r) => (r.f < 0 || state.formats.has(r.f)) && (r.m < 0 || state.matrices.has(r.m)));
}
function decoded(columns) {
  const names = Object.keys(columns),
    [first] = Object.values(columns);
  const { length } = Array.isArray(first) ? first : first.at;
  const value = (column, i) => (Array.isArray(column) ? column[i] : column.of[column.at[i]]);
  return d3.range(length).map((i) => {
    const row = { f: -1, m: -1 };
    for (const name of names) {
      row[name === "label" ? "f" : name === "matrix" ? "m" : name] = value(columns[name], i);
    }
    return row;
  });
}
const ofMatrix = { nnz: "nnz", mean: "mean", cv: "cv" };
const valueOf = (axis) =>
  axis.scale === "matrix"
    ? (r) => r.m
    : (r) => r[axis.field] ?? (axis.field in ofMatrix ? matrices[ofMatrix[axis.field]][r.m] : null);
// The unit of rates is that of the panel's operation.
const labelled = (axis, panel) => axis.label.replace("GFLOPS", data.units[panel] ?? "GFLOPS");
const called = (r) => r.name ?? (r.f < 0 ? "" : formats.name[r.f]);

// Ticks on a logarithmic axis: 1, 2, 5 if it spans few powers of ten, else as many powers of ten as fit.
function logTicks([low, high], most) {
  const tens = Math.log10(high / low),
    from = Math.floor(Math.log10(low)),
    to = Math.ceil(Math.log10(high));
  for (const subs of [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    if (tens > 2.5 && subs.length > 1) continue;
    const found = d3
      .range(from, to + 1)
      .flatMap((e) => subs.map((s) => s * 10 ** e))
      .filter((v) => v >= low && v <= high);
    if (found.length <= most) return found;
  }
  const step = Math.ceil(tens / most);
  return d3
    .range(from, to + 1)
    .filter((e) => e % step === 0)
    .map((e) => 10 ** e)
    .filter((v) => v >= low && v <= high);
}

// An axis for Plot: its scale over these values, and its ticks in a panel of so many pixels.
function scaleOf(axis, values, pixels, apart) {
  const most = Math.max(2, Math.floor(pixels / apart));
  const format = show[axis.ticks ?? "plain"];
  if (axis.scale === "matrix") {
    const domain = d3.sort(
      new Set(values),
      (m) => matrices.nnz[m],
      (m) => matrices.name[m],
    );
    const fits = pixels / domain.length >= 11;
    const few = Math.min(6, most);
    const ticks = fits ? domain : d3.range(few).map((i) => domain[Math.round((i * (domain.length - 1)) / (few - 1))]);
    const short = (m) => {
      const name = matrices.name[m].replace(/^[^/]*\//, "");
      return name.length > 14 ? `${name.slice(0, 12)}..` : name;
    };
    return { type: "point", domain, ticks, format: short, rotate: fits ? -40 : 0 };
  }
  let [low, high] = d3.extent(values);
  if (axis.one) [low, high] = [Math.min(low, 1), Math.max(high, 1)];
  if (axis.scale === "linear")
    return {
      type: "linear",
      domain: [axis.from ?? 0, axis.to ?? 1],
      ticks: d3.ticks(axis.from ?? 0, axis.to ?? 1, Math.min(6, most)),
      format,
    };
  if (axis.scale === "symlog") {
    const domain = [0, Math.max(high, 0.1) * 1.2];
    const ticks = [0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100].filter((v) => v <= domain[1]);
    return {
      type: "symlog",
      constant: 0.1,
      domain,
      ticks: ticks.filter((_, i) => ticks.length <= most || i % 2 === 0),
      format,
    };
  }
  const pad = Math.max((high / low) ** 0.04, 1.08),
    domain = [axis.low ?? low / pad, axis.high ?? high * pad];
  return { type: "log", domain, ticks: logTicks(domain, most), format };
}

// A panel: axes by Plot, and on them what `draw(g, place, size)` appends; place: scales in pixels.
function panel(box, title, { width, height, x, y, margins, labels, draw, note = "" }) {
  const { left = 52, right = 14, top = 22, bottom = 42 } = margins ?? {};
  const scale = ({ type, domain, constant }) => ({ type, domain, ...(constant ? { constant } : {}), axis: null });
  const axes = [];
  const grid = { stroke: "var(--rule)", strokeOpacity: 1 };
  if (x.ticks) {
    if (x.type !== "point") axes.push(Plot.gridX(x.ticks, grid));
    axes.push(
      Plot.axisX(x.ticks, {
        text: x.format,
        label: null,
        anchor: x.anchor ?? "bottom",
        fontSize: 11,
        tickRotate: x.rotate ?? 0,
        tickSize: 4,
        clip: false,
      }),
    );
  }
  if (y.ticks) {
    axes.push(
      Plot.gridY(y.ticks, grid),
      Plot.axisY(y.ticks, { text: y.format, label: null, fontSize: 11, tickSize: 4 }),
    );
  }
  // Plot passes its scales to a mark that is a function; all positions follow from them.
  axes.push((index, scales, values, size) => {
    const g = svg("g");
    draw(g, scales, size);
    return g;
  });
  const picture = Plot.plot({
    width,
    height,
    marginLeft: left,
    marginRight: right,
    marginTop: top,
    marginBottom: bottom,
    x: scale(x),
    y: scale(y),
    marks: axes,
    style: { fontFamily: "inherit", overflow: "visible" },
  });
  if (labels?.x)
    picture.append(svg("text", { x: (left + width - right) / 2, y: height - 4, class: "label" }, labels.x));
  if (labels?.y) picture.append(svg("text", { x: 2, y: 12, class: "label start" }, labels.y));
  picture.setAttribute("aria-hidden", "true");
  const said = note ? [html("span", { className: "note" }, note)] : [];
  box.append(html("div", { className: "panel" }, html("h4", {}, title, ...said), picture));
  return picture;
}

// Formats in drawing order: highlighted ones last, on top.
const layered = (groups) => d3.sort(groups, ([f]) => state.pinned.has(f));

function sizes(box, panels) {
  const room = box.clientWidth,
    columns = Math.max(1, Math.min(panels, Math.floor(room / 420)));
  box.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  return (room - 18 * (columns - 1)) / columns;
}

const kinds = {
  points(box, chart, hits) {
    let rows = rowsOf(chart),
      { x, y } = chart;
    if (chart.winners) {
      rows = winners(rows);
      if (new Set(rows.map((r) => r.m)).size <= chart.few) return namedWinners(box, rows, hits);
    }
    const panels = [...d3.group(rows, (r) => r.panel)]
      .map(([name, part]) => {
        const up = chart.ups?.[name] ?? y,
          [gx, gy] = [valueOf(x), valueOf(up)];
        const fits = (v, axis) => typeof v === "number" && (v > 0 || axis.scale !== "log");
        return { name, up, gx, gy, part: part.filter((r) => fits(gx(r), x) && fits(gy(r), up)) };
      })
      .filter((p) => p.part.length);
    const width = sizes(box, panels.length);
    for (const { name, up, gx, gy, part } of panels) {
      const xs = scaleOf(x, part.map(gx), width - 66, x.scale === "matrix" ? 110 : 54);
      const roof = chart.roof?.[name];
      if (roof) xs.domain = [d3.min(part, gx) / 1.6, d3.max(Object.values(roof.bounds)) * 2.5];
      if (roof) xs.ticks = logTicks(xs.domain, 8);
      const height = Math.max(240, Math.min(380, width * 0.62)) + (xs.rotate ? 60 : 0);
      const ys = scaleOf(up, part.map(gy), height - 64, 34);
      const wins = part.filter((r) => r.faster).length;
      panel(box, name, {
        width,
        height,
        x: xs,
        y: ys,
        labels: { x: labelled(x, name), y: labelled(up, name) },
        margins: xs.rotate ? { left: 76, bottom: 100 } : x.scale === "matrix" ? { right: 44 } : {},
        note: up.wins ? `faster on ${wins} of ${part.length}` : "",
        draw(g, place, size) {
          const edge = {
            left: size.marginLeft,
            right: size.width - size.marginRight,
            top: size.marginTop,
            bottom: size.height - size.marginBottom,
          };
          if (up.one)
            g.append(svg("line", { class: "one", x1: edge.left, x2: edge.right, y1: place.y(1), y2: place.y(1) }));
          if (chart.rises) rises(g, place, xs.domain, ys.domain);
          if (roof) roofline(g, place, edge, roof, xs.domain, ys.domain);
          for (const [f, items] of layered(d3.group(part, (r) => (r.f < 0 ? called(r) : r.f)))) {
            const path = items.map((r) => {
              const [px, py] = [place.x(gx(r)), place.y(gy(r))];
              hits.push({
                x: px,
                y: py,
                ...about(r, name, [
                  [x, gx(r)],
                  [up, gy(r)],
                ]),
              });
              return marker(formats.marker[f] ?? "o", px, py, part.length > 800 ? 2.8 : 3.8);
            });
            g.append(
              svg("path", {
                class: `f dot${formats.filled[f] === 0 ? " hollow" : ""}`,
                "data-f": items[0].f,
                d: path.join(""),
              }),
            );
          }
          if (chart.trend) trends(g, place, part, gx, gy);
        },
      }).hits = hits.splice(0);
    }
  },

  // Performance profiles: whole and zoomed.
  curves(box, chart, hits) {
    const stepsOf = chart.columns ? given : profiles;
    const panels = stepsOf(chart);
    const width = sizes(box, 2 * panels.length);
    for (const { name, curves } of panels) {
      const far = Math.max(2, d3.max(curves, (c) => d3.max(c.steps, (s) => s[0])) * 1.1);
      for (const [title, limit] of [
        [name, far],
        [`${name}, near the best`, 2],
      ]) {
        const height = Math.max(240, Math.min(360, width * 0.6));
        const type = limit > 2 ? "log" : "linear";
        const xs = scaleOf(
          { ...chart.x, scale: type, from: 1, to: limit, low: 1, high: limit },
          [1, limit],
          width - 66,
          54,
        );
        const ys = scaleOf(chart.y, [0, 1], height - 64, 34);
        panel(box, title, {
          width,
          height,
          x: xs,
          y: ys,
          labels: { x: chart.x.label, y: chart.y.label },
          draw(g, place) {
            for (const { f, point, steps } of d3.sort(curves, (c) => state.pinned.has(c.f))) {
              const near = steps.filter(([tau]) => tau <= limit);
              let d = `M${place.x(1).toFixed(1)},${place.y(near[0]?.[0] === 1 ? near[0][1] : 0).toFixed(1)}`;
              for (const [tau, rho] of near) {
                d += `H${place.x(tau).toFixed(1)}V${place.y(rho).toFixed(1)}`;
                hits.push({
                  x: place.x(tau),
                  y: place.y(rho),
                  ...about(point, name, [
                    [chart.x, tau],
                    [chart.y, rho],
                  ]),
                });
              }
              g.append(svg("path", { class: "f line", "data-f": f, d: `${d}H${place.x(limit).toFixed(1)}` }));
              const few = near.filter((_, i) => i % Math.ceil(near.length / 5) === 0);
              g.append(
                svg("path", {
                  class: `f dot only${formats.filled[f] === 0 ? " hollow" : ""}`,
                  "data-f": f,
                  d: few.map(([tau, rho]) => marker(formats.marker[f] ?? "o", place.x(tau), place.y(rho), 4)).join(""),
                }),
              );
            }
          },
        }).hits = hits.splice(0);
      }
    }
  },

  // One row per format: the dot is the median, the thick line the middle half, the thin line 5 to 95 % of the matrices.
  spans(box, chart, hits) {
    const { panels, order } = spansOf[chart.of](chart);
    const width = sizes(box, panels.length);
    for (const { name, rows } of panels) {
      const drawn = fewer(
        box,
        d3.sort(rows, (r) => order.get(r.f)),
        (r) => r.f,
      );
      const left = gutter(
          drawn.map((r) => formats.name[r.f]),
          width,
        ),
        height = 46 + 15 * drawn.length;
      const clip = (v) => Math.min(Math.max(v, chart.once ?? 0), chart.never ?? Infinity);
      const values = drawn.flatMap((r) => [clip(r.low), clip(r.high)]);
      const xs = scaleOf(chart.x, values, width - left - 90, 54);
      panel(box, name, {
        width,
        height,
        x: xs,
        y: { type: "band", domain: drawn.map((r) => r.f) },
        margins: { left, right: 84, top: 4 },
        labels: { x: chart.x.label },
        draw(g, place) {
          if (chart.x.one)
            g.append(svg("line", { class: "one", x1: place.x(1), x2: place.x(1), y1: 4, y2: height - 42 }));
          for (const r of drawn) {
            const y = place.y(r.f) + place.y.bandwidth() / 2,
              at = (v) => place.x(clip(v)).toFixed(1);
            g.append(rowLabel(r.f, left, y));
            const line = (a, b, kind) =>
              svg("path", { class: `f line ${kind}`, "data-f": r.f, d: `M${at(a)},${y}H${at(b)}` });
            g.append(line(r.low, r.high, "thin"));
            if (r.q1 !== undefined) g.append(line(r.q1, r.q3, "thick"));
            g.append(
              svg("path", {
                class: `f dot${formats.filled[r.f] ? "" : " hollow"}`,
                "data-f": r.f,
                d: marker(formats.marker[r.f], place.x(clip(r.middle)), y, 4),
              }),
            );
            g.append(svg("text", { class: "note", x: width - 80, y: y + 4 }, r.note));
            hits.push({ x: width / 2, y, w: width, h: 15, f: r.f, m: -1, panel: name, lines: r.lines });
          }
        },
      }).hits = hits.splice(0);
    }
  },

  // Parts of a whole.
  shares(box, chart, hits) {
    const rows = chart.columns ? rowsOf(chart) : lost();
    const names = Object.keys(chart.parts);
    const panels = [...d3.group(rows, (r) => r.panel)];
    const width = sizes(box, panels.length);
    for (const [name, part] of panels) {
      const whole = new Map(
        d3.rollups(
          part,
          (items) =>
            d3.sum(
              items.filter((r) => names.includes(r.part)),
              (r) => r.value,
            ),
          (r) => r.f,
        ),
      );
      let order = [...whole.keys()];
      if (chart.lacking)
        order = d3.sort(
          order.filter((f) => whole.get(f) > 0),
          (f) => -whole.get(f),
          (f) => formats.name[f],
        );
      const rest = whole.size - order.length;
      const drawn = fewer(box, order, (f) => f);
      const left = gutter(
          drawn.map((f) => formats.name[f]),
          width,
        ),
        height = 46 + 15 * drawn.length;
      const note = chart.lacking && rest ? `${rest} format${rest > 1 ? "s" : ""}: every case ok` : "";
      if (!drawn.length) {
        box.append(
          html("div", { className: "panel" }, html("h4", {}, name, html("span", { className: "note" }, note))),
        );
        continue;
      }
      panel(box, name, {
        width,
        height,
        note,
        x: scaleOf({ scale: "linear", ticks: "share" }, [0, 1], width - left - 90, 54),
        y: { type: "band", domain: drawn },
        margins: { left, right: 84, top: 4 },
        draw(g, place) {
          const shares = d3.group(part, (r) => r.f);
          for (const f of drawn) {
            const y = place.y(f),
              items = shares.get(f);
            let from = 0;
            g.append(rowLabel(f, left, y + place.y.bandwidth() / 2));
            for (const p of names) {
              const share = items.find((r) => r.part === p)?.value ?? 0;
              if (share)
                g.append(
                  svg("rect", {
                    x: place.x(from),
                    y: y + 2,
                    width: place.x(from + share) - place.x(from),
                    height: 11,
                    fill: chart.parts[p],
                  }),
                );
              from += share;
            }
            g.append(
              svg(
                "text",
                { class: "note", x: width - 80, y: y + 11 },
                items[0].note ?? `${digits(items[0].count)} ${chart.note}`,
              ),
            );
            const lines = names
              .map((p) => [p, items.find((r) => r.part === p)])
              .filter(([, r]) => r)
              .map(([p, r]) => [p, show.share(r.value)]);
            hits.push({ x: width / 2, y: y + 7, w: width, h: 15, f, m: -1, panel: name, lines });
          }
        },
      }).hits = hits.splice(0);
    }
    const parts = names.filter((p) => rows.some((r) => r.part === p));
    box.after(swatches(parts.map((p) => [p, chart.parts[p]])));
  },

  // Slowdown of every format on every matrix; families in the order of their best formats.
  cells(box, chart, hits) {
    const { shown, slowdowns } = view();
    const panels = [
      ...d3.group(
        shown.filter((c) => formats.ranked[c.f]),
        (c) => c.panel,
      ),
    ].filter(([, part]) => part.some((c) => c.ratio));
    const width = sizes(box, 1);
    const color = d3.scaleSequentialLog([1, data.slowdownCap], (t) => d3.interpolateYlGnBu(1 - t)).clamp(true);
    for (const [name, part] of panels) {
      const first = d3.rollup(
        part,
        (items) => d3.min(items, (c) => slowdowns.get(c.f) ?? Infinity),
        (c) => formats.family[c.f],
      );
      const order = d3.sort(
        new Set(part.map((c) => c.f)),
        (f) => first.get(formats.family[f]),
        (f) => formats.family[f],
        (f) => slowdowns.get(f) ?? Infinity,
      );
      const drawn = fewer(
        box,
        order,
        (f) => f,
        (f) => slowdowns.get(f) ?? Infinity,
      );
      const columns = d3.sort(new Set(part.map((c) => c.m)), (m) => matrices.name[m]);
      const left = gutter(
        drawn.map((f) => `${formats.name[f]}${formats.projectKernel[f] ? " (project)" : ""}`),
        width,
      );
      const step = (width - left - 8) / columns.length,
        named = step >= 11,
        numbers = step >= 26;
      const top = named ? 12 + Math.min(130, TEXT * d3.max(columns, (m) => matrices.name[m].length)) : 8,
        height = top + 15 * drawn.length + 6;
      const place = new Map(columns.map((m, i) => [m, left + i * step])),
        rows = new Map(drawn.map((f, i) => [f, top + 15 * i]));
      panel(box, name, {
        width,
        height,
        x: { type: "linear", domain: [0, 1] },
        y: { type: "linear", domain: [0, 1] },
        margins: { left, right: 8, top, bottom: 6 },
        draw(g) {
          const bins = new Map();
          let family = null;
          for (const f of drawn) {
            g.append(rowLabel(f, left, rows.get(f) + 7.5, formats.projectKernel[f] ? " (project)" : ""));
            if (family !== null && family !== formats.family[f])
              g.append(svg("line", { class: "part", x1: 0, x2: width, y1: rows.get(f), y2: rows.get(f) }));
            family = formats.family[f];
          }
          for (const c of part.filter((c) => rows.has(c.f))) {
            const [x, y] = [place.get(c.m), rows.get(c.f)];
            if (c.ratio) {
              const bin = Math.min(30, Math.round((30 * Math.log(c.ratio)) / Math.log(data.slowdownCap)));
              bins.set(
                bin,
                `${bins.get(bin) ?? ""}M${x.toFixed(1)},${y}h${(step - 0.6).toFixed(1)}v14.4h${(0.6 - step).toFixed(1)}z`,
              );
            }
            const lines = [
              ["time over the best", c.ratio ? digits(c.ratio, 4) : data.statuses[c.status]],
              ["GFLOPS", digits(c.gflops)],
            ];
            hits.push({ x: x + step / 2, y: y + 7.5, w: step, h: 15, f: c.f, m: c.m, panel: name, lines });
          }
          for (const [bin, d] of bins)
            g.append(svg("path", { class: "cell", fill: color(data.slowdownCap ** (bin / 30)), d }));
          for (const c of numbers ? part.filter((c) => rows.has(c.f)) : []) {
            const text = c.ratio
              ? c.ratio < 9.95
                ? c.ratio.toFixed(1)
                : show.count(Number(c.ratio.toPrecision(2)))
              : ({ skipped: "-", wrong: "x" }[data.statuses[c.status]] ?? "!");
            const dark = c.ratio && d3.lab(color(c.ratio)).l < 60;
            const kind = c.ratio ? `number${dark ? " dark" : ""}${c.ratio <= data.tie ? " best" : ""}` : "number none";
            g.append(svg("text", { class: kind, x: place.get(c.m) + step / 2, y: rows.get(c.f) + 11 }, text));
          }
          for (const m of named ? columns : []) {
            const x = place.get(m) + step / 2 + 4;
            const short = matrices.name[m].replace(/^[^/]*\//, "");
            g.append(
              svg(
                "text",
                { class: "label start", transform: `translate(${x},${top - 4}) rotate(-90)` },
                short.length > 20 ? `${short.slice(0, 18)}..` : short,
              ),
            );
          }
        },
      }).hits = hits.splice(0);
    }
    box.after(
      swatches([1, 1.5, 2, 3, 5, data.slowdownCap].map((v) => [`${v}x${v === data.slowdownCap ? " or more" : ""}`, color(v)])),
    );
  },
};

function swatches(pairs) {
  return html(
    "p",
    { className: "legend" },
    ...pairs.map(([text, color]) => {
      const swatch = html("span", { className: "swatch" });
      swatch.style.background = color;
      return html("span", {}, swatch, text);
    }),
  );
}

// The text of a point's tooltip.
function about(r, panel, pairs) {
  const lines = pairs
    .filter(([axis]) => axis.scale !== "matrix")
    .map(([axis, v]) => [labelled(axis, panel), show[axis.ticks ?? "plain"](v)]);
  if (r.time) lines.push(["time", show.time(r.time)]);
  if (r.ratio) lines.push(["slowdown", digits(r.ratio, 4)]);
  return { f: r.f, m: r.m ?? -1, name: called(r), panel, lines };
}

// The fastest program of each matrix; of tied ones that with the lowest mean slowdown.
function winners(rows) {
  const { slowdowns } = view();
  const perCase = d3.group(rows, (r) => `${r.setting} ${r.m}`);
  return [...perCase.values()].map(once).map((part) => {
    const first = d3.least(
      part.filter((r) => r.ratio <= data.tie),
      (r) => slowdowns.get(r.f),
    );
    const next = d3.min(part, (r) => (r === first ? Infinity : r.ratio / first.ratio));
    const margin = next <= data.tie ? "tied" : `next ${digits(100 * (next - 1), 2)} % slower`;
    return { ...first, next: Number.isFinite(next) ? `, ${margin}` : "" };
  });
}
function namedWinners(box, rows, hits) {
  const panels = d3.group(rows, (r) => r.panel),
    width = sizes(box, panels.size);
  for (const [name, part] of panels) {
    const order = d3.sort(part, (r) => -r.gflops),
      left = gutter(
        order.map((r) => matrices.name[r.m]),
        width,
      ),
      side = Math.min(230, 0.34 * width),
      height = 46 + 20 * order.length;
    panel(box, name, {
      width,
      height,
      x: scaleOf(
        { scale: "log" },
        order.map((r) => r.gflops),
        width - left - side,
        54,
      ),
      y: { type: "band", domain: order.map((r) => r.m) },
      margins: { left, right: side, top: 4 },
      labels: { x: labelled({ label: "GFLOPS of the fastest" }, name) },
      draw(g, place) {
        for (const r of order) {
          const y = place.y(r.m) + place.y.bandwidth() / 2,
            x = place.x(r.gflops);
          g.append(svg("text", { class: "row", x: left - 6, y: y + 4 }, cut(matrices.name[r.m], left)));
          g.append(
            svg("path", {
              class: `colored${formats.filled[r.f] ? "" : " hollow"}`,
              "data-f": r.f,
              d: marker(formats.marker[r.f], x, y, 5),
            }),
          );
          g.append(
            svg("text", { class: "note", x: width - side + 8, y: y + 4 }, cut(`${formats.name[r.f]}${r.next}`, side)),
          );
          hits.push({ x: width / 2, y, w: width, h: 20, ...about(r, name, [[{ label: "GFLOPS" }, r.gflops]]) });
        }
      },
    }).hits = hits.splice(0);
  }
}

function profiles() {
  const { timed, solved } = view();
  return [...d3.group(timed, (c) => c.setting)].map(([setting, part]) => ({
    name: settings[setting],
    curves: [...d3.group(part, (c) => c.f)].map(([f, items]) => {
      const ratios = d3.sort(items.map((c) => c.ratio));
      return { f, point: { f, m: -1 }, steps: ratios.map((tau, i) => [tau, (i + 1) / solved.get(setting)]) };
    }),
  }));
}
function given(chart) {
  return [...d3.group(rowsOf(chart), (r) => r.panel)].map(([name, part]) => ({
    name,
    curves: [...d3.group(part, called)].map(([, items]) => ({
      f: items[0].f,
      point: { ...items[0], m: -1 },
      steps: items.map((r) => [r.tau, r.rho]),
    })),
  }));
}

// Failed and skipped cases, by type.
function lost() {
  const found = [];
  for (const [type, part] of d3.group(view().shown, (c) => data.types[c.setting])) {
    for (const [f, items] of d3.group(part, (c) => c.f)) {
      const counts = d3.rollup(
        items,
        (some) => some.length,
        (c) => data.statuses[c.status],
      );
      const note = `${items.length - (counts.get("ok") ?? 0)} of ${items.length}`;
      for (const [status, count] of counts)
        found.push({ panel: type, f, m: -1, part: status, value: count / items.length, count, note });
    }
  }
  return found;
}

// Distributions over matrices: panels with one row per format, and the order of formats over all panels.
const spansOf = {
  bytes: () => {
    const once = d3.rollups(
      view().ranked.filter((c) => c.bytes > 0),
      ([c]) => c,
      (c) => `${data.types[c.setting]} ${c.f} ${c.m}`,
    );
    return quantiles(
      once.map(([, c]) => ({ f: c.f, panel: data.types[c.setting], value: c.bytes })),
      show.plain,
      (part) => `${part.length} matrices`,
    );
  },
  setup: () => {
    const once = d3
      .rollups(
        view().ranked,
        ([c]) => c,
        (c) => `${data.types[c.setting]} ${c.f} ${c.m}`,
      )
      .map(([, c]) => c);
    const rows = ["device", "host"].flatMap((path) =>
      once
        .filter((c) => c[path] > 0)
        .map((c) => ({
          f: c.f,
          panel: `${data.types[c.setting]}, on the ${path}`,
          value: (c[path] / matrices.nnz[c.m]) * 1e6,
        })),
    );
    return quantiles(rows, show.time, () => "");
  },
  spmvs: (chart) => {
    const hot = view().timed.filter((c) => c.panel.includes("hot")),
      counted = hot.length ? hot : view().timed;
    const path = counted.some((c) => c.device !== null) ? "device" : "host";
    const rows = counted
      .filter((c) => c[path] !== null)
      .flatMap((c) => [
        { f: c.f, panel: `${c.panel}, in SpMVs`, value: c[path] / c.time },
        ...(c.base && c.base[path] !== null && c.f !== state.baseline
          ? [{ f: c.f, panel: `${c.panel}, break-even`, value: breakEven(c, c.base, path) }]
          : []),
      ]);
    const never = (part) => {
      const n = part.filter((v) => !Number.isFinite(v)).length;
      return n ? `never: ${show.share(n / part.length)}` : "";
    };
    return quantiles(
      d3.sort(rows, (r) => r.panel.endsWith("break-even")),
      show.count,
      never,
    );
  },
  speedup: () => {
    const { timed, solved } = view(),
      panels = [],
      logs = new Map();
    for (const [setting, part] of d3.group(
      timed.filter((c) => c.speedup),
      (c) => c.setting,
    )) {
      const rows = d3
        .rollups(
          part,
          (items) => items.map((c) => c.speedup),
          (c) => c.f,
        )
        .map(([f, v]) => {
          const middle = Math.exp(d3.mean(v, Math.log)),
            note = `${middle.toFixed(2)}x, ${show.share(v.length / solved.get(setting))}`;
          logs.set(f, [...(logs.get(f) ?? []), middle]);
          const lines = [
            ["geometric mean", `${digits(middle)}x`],
            ["smallest", `${digits(d3.min(v))}x`],
            ["largest", `${digits(d3.max(v))}x`],
            ["matrices", v.length],
          ];
          return { f, low: d3.min(v), high: d3.max(v), middle, note, lines };
        });
      panels.push({ name: settings[setting], rows });
    }
    return { panels, order: new Map([...logs].map(([f, v]) => [f, -d3.mean(v)])) };
  },
};
// As analysis.breakeven.break_even.
function breakEven(c, base, path) {
  const extra = c[path] - base[path],
    gain = base.time - c.time;
  if (gain > 0) return Math.max(extra, 0) / gain;
  return gain === 0 && extra <= 0 ? 0 : Infinity;
}
function quantiles(rows, format, note) {
  const panels = [...d3.group(rows, (r) => r.panel)].map(([name, part]) => ({
    name,
    rows: d3
      .rollups(
        part,
        (items) => d3.sort(items.map((r) => r.value)),
        (r) => r.f,
      )
      .map(([f, v]) => {
        const at = (q) => v[Math.round(q * (v.length - 1))]; // quantiles are values that occur, because some are infinite
        const lines = [
          ["median", format(at(0.5))],
          ["middle half", `${format(at(0.25))} to ${format(at(0.75))}`],
          ["5 to 95 %", `${format(at(0.05))} to ${format(at(0.95))}`],
          ["matrices", v.length],
        ];
        return { f, low: at(0.05), q1: at(0.25), middle: at(0.5), q3: at(0.75), high: at(0.95), note: note(v), lines };
      }),
  }));
  const all = d3.rollups(
    rows,
    (items) => d3.sort(items.map((r) => r.value)),
    (r) => r.f,
  );
  return { panels, order: new Map(all.map(([f, v]) => [f, v[Math.floor((v.length - 1) / 2)]])) };
}

// Trend lines: the median of y in bins of x for highlighted formats, if a bin has enough points.
function trends(g, place, part, gx, gy) {
  const [low, high] = d3.extent(part, gx),
    step = Math.log(high / low) / 14;
  for (const [f, items] of d3.group(
    part.filter((r) => r.f >= 0),
    (r) => r.f,
  )) {
    const bins = d3.group(items, (r) => Math.min(13, Math.floor(Math.log(gx(r) / low) / step)));
    const points = d3
      .sort(
        [...bins].filter(([, v]) => v.length >= 8),
        ([bin]) => bin,
      )
      .map(
        ([bin, v]) =>
          `${place.x(low * Math.exp((bin + 0.5) * step)).toFixed(1)},${place.y(d3.median(v, gy)).toFixed(1)}`,
      );
    if (points.length > 2) g.append(svg("path", { class: "f line only", "data-f": f, d: `M${points.join("L")}` }));
  }
}

const inside = (v, [low, high]) => Math.min(Math.max(v, low), high);
function rises(g, place, xs, ys) {
  for (const [share, kind] of [
    [1, "roof"],
    [0.5, "half"],
  ]) {
    const from = inside(ys[0] / share, xs),
      to = inside(ys[1] / share, xs);
    g.append(
      svg("line", {
        class: kind,
        x1: place.x(from),
        y1: place.y(from * share),
        x2: place.x(to),
        y2: place.y(to * share),
      }),
    );
  }
}
function roofline(g, place, edge, roof, xs, ys) {
  const peak = roof.ceilings.peak ?? Infinity,
    at = (v) => Math.min(v * roof.bandwidth, peak);
  const bend = inside(peak / roof.bandwidth, xs),
    points = [xs[0], bend, xs[1]].filter((v) => at(v) >= ys[0] && at(v) <= ys[1] * 1.0001);
  const top = inside(ys[1] / roof.bandwidth, xs),
    bottom = inside(ys[0] / roof.bandwidth, xs);
  const line = d3.sort(new Set([bottom, ...points, top])).filter((v) => at(v) <= ys[1] * 1.0001);
  g.append(svg("path", { class: "roof", d: `M${line.map((v) => `${place.x(v)},${place.y(at(v))}`).join("L")}` }));
  g.append(svg("text", { class: "said", x: edge.left + 6, y: edge.top + 12 }, `roof: ${digits(roof.bandwidth)} GB/s`));
  const taken = [edge.top + 12];
  const across = (text, v, kind) => {
    if (v < ys[0] || v > ys[1]) return;
    const y = place.y(v);
    g.append(svg("line", { class: kind, x1: edge.left, x2: edge.right, y1: y, y2: y }));
    if (taken.every((other) => Math.abs(other - y + 3) > 12))
      g.append(svg("text", { class: "said", x: edge.left + 6, y: y - 3 }, text));
    taken.push(y - 3);
  };
  for (const [name, v] of Object.entries(roof.ceilings)) across(`${name}: ${digits(v)}`, v, "ceiling");
  for (const [name, v] of Object.entries(roof.gathers ?? {})) across(name, v, "half");
  for (const [name, v] of Object.entries(roof.bounds)) {
    if (v < xs[0] || v > xs[1]) continue;
    g.append(svg("line", { class: "half", x1: place.x(v), x2: place.x(v), y1: edge.top, y2: edge.bottom }));
    g.append(
      svg(
        "text",
        { class: "said", transform: `translate(${place.x(v) - 3},${edge.bottom - 6}) rotate(-90)` },
        `${name}: 1/${Math.round(1 / v)}`,
      ),
    );
  }
}

// Names of rows: width, truncation, drawing.
const gutter = (names, width) => Math.min(width * 0.42, 14 + TEXT * (d3.max(names, (n) => n.length) ?? 0));
function cut(name, width) {
  const most = Math.floor((width - 10) / TEXT);
  return name.length <= most ? name : `${name.slice(0, Math.max(4, most - 2))}..`;
}
function rowLabel(f, left, y, more = "") {
  const text = svg(
    "text",
    { class: "row f", "data-f": f, x: left - 6, y: y + 4 },
    cut(`${formats.name[f]}${more}`, left),
  );
  text.append(svg("title", {}, formats.name[f]));
  return text;
}

// The first of many rows and the highlighted ones, before "all" is pressed. size: decides which are first.
function fewer(box, rows, key, size) {
  const holder = box.closest("figure");
  holder.rows = Math.max(holder.rows ?? 0, rows.length);
  if (holder.all || rows.length <= FEW) return rows;
  const first = new Set((size ? d3.sort(rows, size) : rows).slice(0, FEW));
  return rows.filter((row) => first.has(row) || state.pinned.has(key(row)));
}

function draw(figure) {
  const chart = data.charts[figure.dataset.chart],
    box = figure.querySelector(".panels");
  for (const old of figure.querySelectorAll(".legend, .more")) old.remove();
  box.replaceChildren();
  figure.rows = 0;
  kinds[chart.kind](box, chart, []);
  if (!box.children.length) box.append(html("p", { className: "quiet" }, "No case here passes the filter."));
  if (figure.rows > FEW) {
    const more = html(
      "button",
      { type: "button", className: "more" },
      figure.all ? `the first ${FEW} only` : `all ${figure.rows} rows`,
    );
    more.addEventListener("click", () => {
      figure.all = !figure.all;
      draw(figure);
      figure.querySelector(".more").focus();
    });
    box.after(more);
  }
  legend(figure, box);
}

// The legend: marks of coloured formats, and the number of grey ones.
function legend(figure, box) {
  const present = new Set(
    [...box.querySelectorAll(".f[data-f]")].map((e) => Number(e.dataset.f)).filter((f) => f >= 0),
  );
  const few = present.size <= COLORED;
  box.classList.toggle("few", few);
  if (!present.size || box.querySelector("text.row.f")) return; // row labels replace the legend
  const lit = few ? [...present] : [...state.pinned].filter((f) => present.has(f));
  const theirs = new Map(
    (data.charts[figure.dataset.chart].rows ?? []).filter((r) => r.name).map((r) => [r.f, r.name]),
  );
  const text = (f, name = theirs.get(f) ?? "") =>
    !name || name.toLowerCase() === formats.name[f] ? formats.name[f] : `${name} (${formats.name[f]})`;
  const entries = lit.map((f) => html("span", { "data-f": f, className: "entry" }, icon(f), text(f)));
  const others = present.size - lit.length;
  if (others) entries.push(html("span", { className: "quiet" }, `${others} other format${others > 1 ? "s" : ""}`));
  box.after(html("p", { className: "legend" }, ...entries));
}

// Figures are drawn when they come near the window, and again when their data changes.
const figures = [...document.querySelectorAll("figure[data-chart]")],
  stale = new Set(figures),
  near = new Set();
function refresh() {
  for (const figure of figures)
    if (stale.has(figure) && near.has(figure)) {
      stale.delete(figure);
      draw(figure);
    }
}
const watcher = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) near[isIntersecting ? "add" : "delete"](target);
    refresh();
  },
  { rootMargin: "600px" },
);
for (const figure of figures) watcher.observe(figure);
let roomy = document.querySelector("main").clientWidth;
new ResizeObserver(() => {
  const room = document.querySelector("main").clientWidth;
  if (room === roomy) return;
  roomy = room;
  for (const figure of figures) stale.add(figure);
  refresh();
}).observe(document.querySelector("main"));
function drawAll() {
  for (const figure of figures) if (stale.delete(figure)) draw(figure);
}

// Colours: highlighted formats are coloured, others grey; while the pointer is on a format, all others are faint.
const colors = html("style"),
  lit = html("style");
colors.textContent = everyFormat
  .map((f) => `[data-f="${f}"]{--mark:${formats.color[f] === "#000000" ? "var(--ink)" : formats.color[f]}}`)
  .join("");
document.head.append(colors, lit);
function light() {
  const chosen = [...state.pinned, ...(state.hovered === null ? [] : [state.hovered])].map((f) => `[data-f="${f}"]`);
  const on = chosen.length ? `:is(${chosen.join(",")})` : ":not(*)";
  let rules = `.f${on}{fill:var(--shade);stroke:var(--shade);opacity:1}.panels:not(.few) .f.only:not(${on}){display:none}text.f${on}{font-weight:600}`;
  if (state.hovered !== null)
    rules += `.f:not([data-f="${state.hovered}"]){opacity:.14}text.f:not([data-f="${state.hovered}"]){opacity:.5}tr[data-f="${state.hovered}"]>*{background:var(--best)}`;
  lit.textContent = rules;
}
function raise(f) {
  for (const element of document.querySelectorAll(`svg .f[data-f="${f}"]:not(text)`))
    element.parentNode.append(element);
}
onChange((what) => {
  light();
  if (what === "hover") return raise(state.hovered);
  for (const figure of figures) stale.add(figure);
  refresh();
});
light();
// Visible figures are drawn at once, without waiting for the watcher.
for (const figure of figures) {
  if (figure.getBoundingClientRect().top > innerHeight + 600) break;
  near.add(figure);
  refresh();
}
"use strict";
// Headings of a table become buttons that sort; aria-sort tells which one did, and which way.
function sortable(row, onSort) {
  for (const th of row.cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = th.textContent;
    th.textContent = "";
    th.append(button);
    button.addEventListener("click", () => {
      const now = th.getAttribute("aria-sort");
      // The first click shows the largest number, or the first word, on top.
      const down = now ? now === "ascending" : th.classList.contains("num");
      for (const other of row.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      onSort(th.cellIndex, down);
    });
  }
}

// Numbers by size, words by locale; empty cells are last in both directions.
function compare(a, b, down) {
  const none = (v) => v === null || v === undefined || v === "";
  if (none(a) || none(b)) return none(a) - none(b);
  const order =
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (cell) =>
    cell.dataset.key === undefined ? cell.textContent : cell.dataset.key === "" ? null : Number(cell.dataset.key);
  sortable(table.tHead.rows[0], (column, down) =>
    body.append(...[...body.rows].sort((a, b) => compare(key(a.cells[column]), key(b.cells[column]), down))),
  );
}
for (const input of document.querySelectorAll("[data-filter]")) {
  const table = input.closest("section").querySelector("table.sortable");
  input.addEventListener("input", () => {
    const word = input.value.toLowerCase();
    for (const row of table.tBodies[0].rows)
      row.classList.toggle("unmatched", !row.textContent.toLowerCase().includes(word));
  });
}

// Rows of tables belong to a format or a matrix: the filter hides them, and the pointer highlights them.
const byName = {
  f: new Map(formats.name.map((name, f) => [name, f])),
  m: new Map(matrices.name.map((name, m) => [name, m])),
};
const rowsOfTables = [];
for (const row of document.querySelectorAll("table.sortable tbody tr")) {
  const head = row.cells[0],
    name = head.textContent;
  const f = byName.f.get(name),
    m = byName.m.get(name);
  if (f !== undefined) {
    row.dataset.f = f;
    head.prepend(icon(f));
  } else if (m !== undefined) {
    head.replaceChildren(html("a", { href: matrixAnchor(m) }, name));
  } else continue;
  rowsOfTables.push({ row, f, m });
}
onChange((what) => {
  if (what !== "filter") return;
  for (const { row, f, m } of rowsOfTables)
    row.hidden = f === undefined ? !state.matrices.has(m) : !state.formats.has(f);
  const narrowed = state.matrices.size < everyMatrix.length;
  for (const note of document.querySelectorAll(".of-all")) note.hidden = !narrowed;
});

// The table of matrices: only one page of rows is in the document at a time.
const grid = (function () {
  const byId = (id) => document.getElementById(id);
  const [viewed, all, table] = ["view", "all", "cells"].map(byId);
  const PAGE = 50,
    FIRST = 8;
  const BEFORE = ["Matrix", "Rows", "Nonzeros", "Mean row", "Longest row", "Row CV", "Best", "Its value"];
  const AFTER = ["Kind", "SHA-256"];
  const WORDS = new Set(["Matrix", "Best", ...AFTER]);
  const views = [];
  settings.forEach((name, s) => {
    if (cases.some((c) => c.setting === s && c.gflops > 0))
      views.push({
        name: `${data.units[name]}, ${name}`,
        most: true,
        of: (c) => c.setting === s,
        value: (c) => c.gflops,
      });
  });
  for (const type of new Set(data.types)) {
    if (cases.some((c) => data.types[c.setting] === type && c.bytes > 0)) {
      views.push({
        name: `bytes per nonzero, ${type}`,
        most: false,
        of: (c) => data.types[c.setting] === type,
        value: (c) => c.bytes,
      });
    }
  }
  views.forEach((v, i) => viewed.add(new Option(v.name, i)));
  if (!views.length || !everyMatrix.length) {
    byId("grid").textContent = "No matrix was measured.";
    return { reveal() {} };
  }
  let page = 0,
    sorted = null,
    columns = [],
    cells = new Map(),
    others = new Map(); // by matrix: formats that are another's name there, with that format

  const text = (v) =>
    v === null || v === undefined
      ? "-"
      : typeof v === "number"
        ? v.toLocaleString("en", Math.abs(v) < 1000 ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 0 })
        : v;

  // Rates within the accuracy of times are tied.
  function leads(value, first, most) {
    return typeof value === "number" && (most ? value * data.tie >= first : value === first);
  }

  // The cells of each matrix: numbers, the status of failed and skipped cases, null if there is no case.
  function filled() {
    const { of, value, most } = views[viewed.value];
    cells = new Map(everyMatrix.map((m) => [m, new Map()]));
    others = new Map(everyMatrix.map((m) => [m, new Map()]));
    for (const c of cases) {
      if (!of(c) || !formats.ranked[c.f]) continue;
      const held = cells.get(c.m);
      if (!held.has(c.f) || c.status === OK) held.set(c.f, c.status === OK ? value(c) : data.statuses[c.status]);
      if (most && c.program !== c.f && state.formats.has(c.program)) others.get(c.m).set(c.f, c.program);
    }
    const some = everyFormat.filter((f) => formats.ranked[f] && state.formats.has(f));
    const lit = some.filter((f) => state.pinned.has(f)),
      rest = some.filter((f) => !state.pinned.has(f));
    const ordered = [...lit, ...rest];
    columns = all.checked ? ordered : ordered.slice(0, Math.max(FIRST, lit.length));
    all.parentElement.hidden = ordered.length <= FIRST;
    all.of = ordered;
  }

  // A row: the matrix and its size, its best format with its value, all formats, kind and hash.
  function rows(shown = columns) {
    const { most } = views[viewed.value];
    const found = [...state.matrices].map((m) => {
      const held = cells.get(m),
        numbers = all.of.filter((f) => typeof held.get(f) === "number" && held.get(f) > 0 && !others.get(m).has(f));
      const at = most ? d3.greatest(numbers, (f) => held.get(f)) : d3.least(numbers, (f) => held.get(f));
      const winner = at === undefined ? [null, null] : [formats.name[at], held.get(at)];
      const { name, kind, rows, nnz, mean, longest, cv, sha } = matrices;
      const values = shown.map((f) => held.get(f) ?? null);
      return {
        m,
        first: winner[1],
        most,
        same: shown.map((f) => others.get(m).get(f)),
        values: [name[m], rows[m], nnz[m], mean[m], longest[m], cv[m], ...winner, ...values, kind[m], sha[m]],
      };
    });
    if (sorted) {
      // Cells with a status are sorted as empty.
      const size = (v) => (sorted.words || typeof v === "number" ? v : null);
      found.sort((a, b) => compare(size(a.values[sorted.column]), size(b.values[sorted.column]), sorted.down));
    }
    return found;
  }

  function head(shown = columns) {
    const row = document.createElement("tr");
    [...BEFORE, ...shown.map((f) => formats.name[f]), ...AFTER].forEach((label, i) => {
      const th = html("th", { scope: "col" }, label);
      if (!WORDS.has(label)) th.className = "num";
      const f = shown[i - BEFORE.length];
      if (i >= BEFORE.length && f !== undefined) th.dataset.f = f;
      row.append(th);
    });
    return row;
  }
  function headed() {
    const row = head();
    table.tHead.replaceChildren(row);
    sorted = null;
    sortable(row, (column, down) => {
      sorted = { column, down, words: WORDS.has(row.cells[column].textContent) };
      page = 0;
      fill();
    });
  }
  function line({ m, first, most, same, values }) {
    const tr = html("tr", { id: matrixAnchor(m).slice(1) });
    values.forEach((value, i) => {
      const cell = html(i ? "td" : "th");
      if (!i) cell.scope = "row";
      const inside = i >= BEFORE.length && i < values.length - AFTER.length;
      const other = inside ? same[i - BEFORE.length] : undefined;
      if (typeof value === "number")
        cell.className = inside && other === undefined && leads(value, first, most) ? "num best" : "num";
      else if (inside) cell.className = "not";
      cell.textContent = text(value);
      if (other !== undefined) cell.append(html("small", {}, ` = ${formats.name[other]} here`));
      tr.append(cell);
    });
    return tr;
  }

  function fill() {
    const found = rows(),
      pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(page, pages - 1);
    const some =
      columns.length < all.of.length ? `: ${columns.length} of ${all.of.length} formats; the best is of all` : "";
    table.caption.textContent = views[viewed.value].name + some;
    table.tBodies[0].replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(line));
    const from = found.length ? page * PAGE + 1 : 0;
    byId("where").textContent = `${from} to ${Math.min(found.length, (page + 1) * PAGE)} of ${found.length} matrices`;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page === pages - 1;
  }
  function anew() {
    filled();
    headed();
    fill();
  }

  viewed.addEventListener("change", () => {
    filled();
    fill();
  });
  all.addEventListener("change", anew);
  byId("previous").addEventListener("click", () => {
    page -= 1;
    fill();
  });
  byId("next").addEventListener("click", () => {
    page += 1;
    fill();
  });
  onChange((what) => {
    if (what !== "hover") anew();
  });
  anew();
  return {
    // Show the row of a matrix, on its page.
    reveal(m) {
      const place = rows().findIndex((row) => row.m === m);
      if (place < 0) return;
      page = Math.floor(place / PAGE);
      fill();
      const row = document.getElementById(matrixAnchor(m).slice(1));
      row.classList.add("sought");
      row.scrollIntoView({ block: "center" });
    },
    // Every column on paper, in as many tables as it takes.
    printed() {
      const parts = d3.range(0, all.of.length, 8).map((from) => all.of.slice(from, from + 8));
      return parts.map((part) => {
        const whole = html(
          "table",
          {},
          html("caption", {}, `${views[viewed.value].name}: ${formats.name[part[0]]} to ${formats.name[part.at(-1)]}`),
        );
        whole.append(html("thead", {}, head(part)), html("tbody", {}, ...rows(part).map(line)));
        for (const row of whole.querySelectorAll("[id]")) row.removeAttribute("id");
        return whole;
      });
    },
  };
})();

// Anchors: a matrix's row may be on another page, and a format's under a closed heading.
function follow(hash) {
  const name = decodeURIComponent(hash);
  if (name.startsWith("#matrix-")) grid.reveal(byName.m.get(name.slice(8)));
  const target = document.getElementById(hash.slice(1)) ?? document.getElementById(name.slice(1));
  for (let holder = target; holder; holder = holder.parentElement) if (holder.tagName === "DETAILS") holder.open = true;
  if (name.startsWith("#format-")) target?.scrollIntoView({ block: "center" });
}
addEventListener("hashchange", () => follow(location.hash));

// The filter. Every control is a native one, so that a keyboard reaches it.
(function () {
  const byId = (id) => document.getElementById(id);
  const list = byId("formats-list"),
    items = [];
  for (const f of d3.sort(everyFormat, (f) => formats.name[f])) {
    const box = html("input", { type: "checkbox", checked: true, "aria-label": `show ${formats.name[f]}` });
    const button = html(
      "button",
      { type: "button", "aria-pressed": "false", title: `highlight ${formats.name[f]}` },
      icon(f),
      formats.name[f],
    );
    const item = html("li", { "data-f": f }, box, button);
    box.addEventListener("change", () => {
      state.formats[box.checked ? "add" : "delete"](f);
      changed("filter");
    });
    button.addEventListener("click", () => toggle(f));
    for (const kind of ["mouseenter", "focus"]) button.addEventListener(kind, () => hover(f));
    for (const kind of ["mouseleave", "blur"]) button.addEventListener(kind, () => hover(null));
    items.push({ f, item, box, button });
    list.append(item);
  }
  const [family, word, group, find, least, base] = ["family", "word", "group", "find", "least", "base"].map(byId);
  for (const name of d3.sort(new Set(formats.family))) if (name) family.add(new Option(name));
  for (const name of d3.sort(new Set(matrices.group))) group.add(new Option(name));
  for (const f of d3.sort(
    everyFormat.filter((f) => formats.ranked[f]),
    (f) => formats.name[f],
  ))
    base.add(new Option(formats.name[f], f));
  base.value = data.baseline;

  const listed = ({ f }) =>
    (!family.value || formats.family[f] === family.value) && formats.name[f].includes(word.value.trim().toLowerCase());
  function relist() {
    for (const entry of items) entry.item.hidden = !listed(entry);
  }
  family.addEventListener("change", relist);
  word.addEventListener("input", relist);
  const choose = (wanted) => {
    state.formats = new Set(everyFormat.filter(wanted));
    for (const { f, box } of items) box.checked = state.formats.has(f);
    changed("filter");
  };
  byId("only").addEventListener("click", () => {
    const f = new Set(items.filter(listed).map((entry) => entry.f));
    choose((one) => f.has(one));
  });
  byId("lit").addEventListener("click", () => choose((f) => state.pinned.has(f)));
  byId("every").addEventListener("click", () => choose(() => true));

  function chooseMatrices() {
    const text = find.value.trim().toLowerCase(),
      from = Number(least.value) || 0;
    state.matrices = new Set(
      everyMatrix.filter(
        (m) =>
          (!group.value || matrices.group[m] === group.value) &&
          matrices.nnz[m] >= from &&
          `${matrices.name[m]} ${matrices.kind[m]}`.toLowerCase().includes(text),
      ),
    );
    changed("filter");
  }
  for (const input of [find, least]) input.addEventListener("input", chooseMatrices);
  group.addEventListener("change", chooseMatrices);
  base.addEventListener("change", () => {
    state.baseline = Number(base.value);
    for (const name of document.querySelectorAll(".baseline")) name.textContent = formats.name[state.baseline];
    changed("filter");
  });
  byId("reset").addEventListener("click", () => {
    for (const input of [family, word, group, find, least]) input.value = "";
    base.value = data.baseline;
    state.pinned = new Set(data.highlight);
    relist();
    base.dispatchEvent(new Event("change"));
    choose(() => true);
    chooseMatrices();
  });
  function updateStatus() {
    for (const { f, button } of items) button.setAttribute("aria-pressed", state.pinned.has(f));
    byId("selected").textContent =
      `${state.formats.size} of ${everyFormat.length} formats, ${state.matrices.size} of ${everyMatrix.length} matrices`;
  }
  onChange((what) => {
    if (what !== "hover") updateStatus();
  });
  updateStatus();
  if (matchMedia("(max-width: 60rem)").matches)
    for (const part of document.querySelectorAll(".side > details")) part.open = false;
})();

function toggle(f) {
  state.pinned[state.pinned.has(f) ? "delete" : "add"](f);
  changed("marks");
}
function hover(f) {
  if (state.hovered === f) return;
  state.hovered = f;
  changed("hover");
}

// Values of the point under the pointer or at the arrow keys; a click keeps them shown and highlights the format.
(function () {
  const tip = document.getElementById("tip");
  let kept = false;
  function near(hits, x, y) {
    let found = null,
      least = 22;
    for (const hit of hits) {
      const [dx, dy] = [Math.abs(hit.x - x), Math.abs(hit.y - y)];
      const far = hit.w ? (dx <= hit.w / 2 && dy <= hit.h / 2 ? 0 : Infinity) : Math.hypot(dx, dy);
      if (far < least) [found, least] = [hit, far];
    }
    return found;
  }
  function tell(hit, x, y) {
    const name = hit.f < 0 ? hit.name : formats.name[hit.f];
    const lines = hit.lines.flatMap(([key, value]) => [html("dt", {}, key), html("dd", {}, String(value))]);
    const links = [];
    if (hit.f >= 0) links.push(html("a", { href: formatAnchor(hit.f) }, "format"));
    if (hit.m >= 0) links.push(html("a", { href: matrixAnchor(hit.m) }, "row"));
    const head = html("strong", {}, ...(hit.f >= 0 ? [icon(hit.f)] : []), name);
    const of = html("p", {}, [hit.m >= 0 ? matrices.name[hit.m] : "", hit.panel].filter(Boolean).join(", "));
    tip.replaceChildren(head, of, html("dl", {}, ...lines), html("p", { className: "links" }, ...links));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 12) : y + 16}px`;
  }
  function hide() {
    kept = false;
    tip.hidden = true;
    hover(null);
  }

  const chartOf = (event) => event.target.closest?.("figure[data-chart] .panel svg");
  document.addEventListener("pointermove", (event) => {
    const picture = chartOf(event);
    if (kept) return;
    const box = picture?.getBoundingClientRect();
    const hit = picture?.hits && near(picture.hits, event.clientX - box.left, event.clientY - box.top);
    if (!hit) return tip.hidden ? undefined : hide();
    hover(hit.f >= 0 ? hit.f : null);
    tell(hit, event.clientX, event.clientY);
  });
  document.addEventListener("click", (event) => {
    const picture = chartOf(event),
      entry = event.target.closest?.(".legend [data-f]");
    if (entry) return toggle(Number(entry.dataset.f));
    if (!picture) return tip.contains(event.target) ? undefined : kept && hide();
    const box = picture.getBoundingClientRect(),
      hit = near(picture.hits, event.clientX - box.left, event.clientY - box.top);
    if (!hit) return hide();
    kept = false;
    if (hit.f >= 0) toggle(hit.f);
    tell(hit, event.clientX, event.clientY);
    kept = true;
  });
  let place = -1;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !tip.hidden) return hide();
    const box = event.target.closest?.(".panels");
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!box || (!step && event.key !== "Enter")) return;
    const all = [...box.querySelectorAll(".panel svg")].flatMap((picture) =>
      d3
        .sort(
          picture.hits ?? [],
          (h) => (h.w ? h.y : h.x),
          (h) => h.x,
        )
        .map((hit) => ({ picture, hit })),
    );
    if (!all.length) return;
    event.preventDefault();
    if (step) place = (place + step + all.length) % all.length;
    const { picture, hit } = all[Math.max(0, place) % all.length];
    if (event.key === "Enter" && hit.f >= 0) return toggle(hit.f);
    const at = picture.getBoundingClientRect();
    hover(hit.f >= 0 ? hit.f : null);
    tell(hit, at.left + hit.x, at.top + hit.y);
  });
  document.addEventListener("focusout", (event) => {
    if (event.target.matches?.(".panels") && !kept) {
      place = -1;
      hide();
    }
  });
})();

// The data of a figure as CSV, for pages without files of data.
for (const link of document.querySelectorAll("a[data-csv]")) {
  link.addEventListener("click", () => {
    const chart = data.charts[link.dataset.csv],
      rows = rowsOf(chart);
    const known = (r) => ({
      ...r,
      setting: r.panel,
      format: called(r),
      matrix: r.m < 0 ? "" : matrices.name[r.m],
    });
    const skip = new Set(["f", "m", "c", "base", "panel", "name", "status", "setting", "format", "matrix"]);
    const names = ["setting", "format", "matrix", ...Object.keys(rows[0] ?? {}).filter((key) => !skip.has(key))];
    const lines = rows.map(known).map((r) => names.map((key) => JSON.stringify(r[key] ?? "")).join(","));
    link.href = URL.createObjectURL(new Blob([[names.join(","), ...lines].join("\n"), "\n"], { type: "text/csv" }));
  });
}

// Printing: all sections are opened, all figures drawn, wide tables split.
let closed = [],
  parted = [];
const WIDE = 12;
function inParts(table) {
  const rows = [...table.rows].filter((row) => !row.hidden),
    width = rows[0].cells.length;
  return d3.range(1, width, WIDE - 1).map((from) => {
    const part = html("table", { className: "part" }),
      body = [];
    for (const row of rows) {
      const cells = [row.cells[0], ...[...row.cells].slice(from, from + WIDE - 1)].map((cell) => cell.cloneNode(true));
      body.push(html("tr", {}, ...cells));
    }
    part.append(
      html("caption", {}, table.caption?.textContent ?? ""),
      html("thead", {}, body[0]),
      html("tbody", {}, ...body.slice(1)),
    );
    return part;
  });
}
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const details of closed) details.open = true;
  drawAll();
  for (const table of document.querySelectorAll("main table")) {
    const parts =
      table.id === "cells" ? (grid.printed?.() ?? []) : table.rows[0]?.cells.length > WIDE ? inParts(table) : [];
    if (!parts.length) continue;
    table.after(...parts);
    table.classList.add("replaced");
    parted.push({ table, parts });
  }
});
addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
  for (const { table, parts } of parted) {
    for (const part of parts) part.remove();
    table.classList.remove("replaced");
  }
  parted = [];
});

// The section or figure at the top of the window is marked in the table of contents.
(function () {
  const links = new Map([...document.querySelectorAll(".side nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(target.id)?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-5% 0px -85% 0px" },
  );
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target) seen.observe(target);
  }
})();

follow(location.hash);
