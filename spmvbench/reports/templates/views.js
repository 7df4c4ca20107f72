// The views: Observable Plot gives scales, axes and grids, marks are drawn below, one path per format: fast for
// thousands of points, and one CSS rule highlights a format. Every view draws `statistics` of the selected rows.

// Rows before "all" is pressed; most formats that are all drawn in colour; width of a letter and height of a row.
const FEW = 40, COLORED = 10, LETTER = 6.4, ROW = 16;
// Points of a figure, beyond which only highlighted formats have theirs; columns of the heat map before "all".
const MANY = 50000, FEWER = "points of highlighted formats, medians of all", COLUMNS = 400;

const UNIT = { type: "linear", domain: [0, 1] };

// Ticks on a logarithmic axis: 1, 2, 5 if it spans few powers of ten, else as many powers of ten as fit.
function logTicks([low, high], most) {
  const tens = Math.log10(high / low),
    powers = d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1);
  const inside = (values) => values.filter((v) => v >= low && v <= high);
  for (const subs of tens > 2.5 ? [[1]] : [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const found = inside(powers.flatMap((e) => subs.map((s) => Number((s * 10 ** e).toPrecision(12)))));
    if (found.length <= most) return found;
  }
  const step = Math.ceil(tens / most);
  return inside(powers.filter((e) => e % step === 0).map((e) => 10 ** e));
}
// A logarithmic axis over these values in so many pixels, a tick at most every `apart` pixels.
function logAxis(values, pixels, apart, format = digits, from = null) {
  const [low, high] = d3.extent(values), pad = Math.max((high / low) ** 0.04, 1.08),
    domain = [from ?? low / pad, high * pad];
  return { type: "log", domain, ticks: logTicks(domain, Math.max(2, Math.floor(pixels / apart))), format };
}

// A panel: axes by Plot, and on them what `draw(g, scales, edges, hits)` appends; hits are the places with a tooltip.
function panel(box, title, { width, height, x, y, margins, labels = {}, draw }) {
  const { left = 52, right = 24, top = 22, bottom = 42 } = margins ?? {};
  const grid = { stroke: "var(--rule)", strokeOpacity: 1 }, hits = [];
  const scale = ({ type, domain }) => ({ type, domain, axis: null });
  const text = ({ format }) => ({ text: (v) => format(v), label: null, fontSize: 11, tickSize: 4 });
  const marks = [];
  if (x.ticks) marks.push(Plot.gridX(x.ticks, grid), Plot.axisX(x.ticks, { ...text(x), anchor: "bottom" }));
  if (y.ticks) marks.push(Plot.gridY(y.ticks, grid), Plot.axisY(y.ticks, text(y)));
  // Plot passes its scales to a mark that is a function; all positions follow from them.
  marks.push((index, scales) => {
    const g = svg("g");
    draw(g, scales, { left, right: width - right, top, bottom: height - bottom }, hits);
    return g;
  });
  const picture = Plot.plot({
    width, height, marks, x: scale(x), y: scale(y),
    marginLeft: left, marginRight: right, marginTop: top, marginBottom: bottom,
    style: { fontFamily: "inherit", overflow: "visible" },
  });
  if (labels.x) picture.append(svg("text", { x: (left + width - right) / 2, y: height - 4, class: "label" }, labels.x));
  if (labels.y) picture.append(svg("text", { x: 2, y: 12, class: "label start" }, labels.y));
  picture.setAttribute("aria-hidden", "true"); // what it shows is told value by value, see page.js
  picture.hits = hits;
  box.append(html("div", { className: "panel" }, html("h4", {}, title), picture));
}
const layered = (groups) => d3.sort(groups, ([f]) => state.pinned.has(f)); // highlighted ones last, on top
const gutter = (names, width) => Math.min(width * 0.42, 14 + LETTER * (d3.max(names, (n) => n.length) ?? 0));
function cut(name, width) {
  const most = Math.floor((width - 10) / LETTER);
  return name.length <= most ? name : `${name.slice(0, Math.max(4, most - 2))}..`;
}
const short = (m) => matrices.name[m].replace(/^[^/]*\//, "");
function rowLabel(text, left, y, f = null) {
  const label = svg("text", { class: `row${f === null ? "" : " f"}`, x: left - 6, y: y + 4 }, cut(text, left));
  if (f !== null) label.dataset.f = f;
  label.append(svg("title", {}, text));
  return label;
}
// The first of many rows and those that `kept` keeps, before "all" is pressed.
function fewer(box, items, kept, place = null) {
  box.many = items.length;
  if (state.all || items.length <= FEW) return items;
  const first = new Set((place ? d3.sort(items, place) : items).slice(0, FEW));
  return items.filter((item) => first.has(item) || kept(item));
}

// Rows with a mark each, the smallest slowdown first: at the left a name, at the right a note, and a bar at the bound.
function lines(box, title, unsorted, { label, one = false }) {
  const items = d3.sort(unsorted, (item) => item.ratio || Infinity);
  const width = box.clientWidth, kept = ({ f }) => !one && state.pinned.has(f);
  const drawn = fewer(box, items, kept), left = gutter(drawn.map((item) => item.name), width),
    right = Math.min(230, Math.max(0.3 * width, 110)),
    values = drawn.flatMap((item) => [item.value, item.bound]).filter((v) => v > 0);
  panel(box, title, {
    width, height: 46 + ROW * drawn.length,
    x: values.length ? logAxis(values, width - left - right, 54, digits, one ? 0.95 : null) : UNIT,
    y: { type: "band", domain: d3.range(drawn.length) },
    margins: { left, right, top: 4 }, labels: { x: label },
    draw(g, scales, edges, hits) {
      drawn.forEach((item, i) => {
        const y = scales.y(i) + scales.y.bandwidth() / 2;
        g.append(rowLabel(item.name, left, y, one ? null : item.f));
        const bar = item.bound > 0 ? `M${scales.x(item.bound).toFixed(1)},${y - 5}v10` : "";
        g.append(svg("path", { class: "bound", d: bar }));
        if (item.value > 0) g.append(dot(item.f, marker(item.f, scales.x(item.value), y, 4.2)));
        g.append(svg("text", { class: "note", x: edges.right + 8, y: y + 4 }, cut(item.note, right)));
        hits.push({ x: width / 2, y, w: width, h: ROW, f: item.f, m: item.m, lines: item.lines });
      });
    },
  });
}

const views = {
  // The share of matrices on which a format is within a factor of the best: whole, and near the best.
  profile(box) {
    const curves = [...statistic("profile")].filter(([, steps]) => steps.at(-1)[1] > 0);
    if (!curves.length) return;
    const wide = box.clientWidth >= 840, width = wide ? (box.clientWidth - 18) / 2 : box.clientWidth,
      far = Math.max(2, d3.max(curves, ([, steps]) => steps.at(-1)[0]) * 1.1);
    box.style.gridTemplateColumns = wide ? "1fr 1fr" : "1fr";
    for (const [title, limit] of [[state.setting, far], [`${state.setting}, near the best`, 2]]) {
      const height = Math.max(240, Math.min(360, width * 0.6));
      const linear = { type: "linear", domain: [1, limit], ticks: d3.ticks(1, limit, 5), format: digits };
      panel(box, title, {
        width, height,
        x: limit > 2 ? logAxis([1, limit], width - 76, 54, digits, 1) : linear,
        y: { type: "linear", domain: [0, 1], ticks: d3.ticks(0, 1, 5), format: percent },
        labels: { x: "tau: time over the best time", y: "share of matrices within tau" },
        draw(g, { x, y }, edges, hits) {
          for (const [f, steps] of layered(curves)) {
            const within = steps.filter(([tau]) => tau <= limit);
            const near = [...new Map(within.map((step) => [Math.round(2 * x(step[0])), step])).values()]; // two a pixel
            const d = near.map(([tau, rho]) => `H${x(tau).toFixed(1)}V${y(rho).toFixed(1)}`).join("");
            const whole = `M${x(1).toFixed(1)},${y(0)}${d}H${x(limit).toFixed(1)}`;
            g.append(svg("path", { class: "f line", "data-f": f, d: whole }));
            const few = near.filter((_, i) => i % Math.ceil(near.length / 5) === 0);
            g.append(dot(f, few.map(([tau, rho]) => marker(f, x(tau), y(rho), 4)).join(""), "f dot only"));
            const said = (tau, rho) => [["tau", digits(tau, 4)], ["matrices", percent(rho)]];
            for (const [tau, rho] of near) hits.push({ x: x(tau), y: y(rho), f, m: null, lines: said(tau, rho) });
          }
        },
      });
    }
  },

  // Rates over nonzeros, with medians and the bounds of memory.
  gflops(box) {
    const points = statistic("ranked").map((t) => ({ ...t, x: matrices.nnz[t.m], y: t.row.rate }));
    if (!points.length) return;
    const width = box.clientWidth, height = Math.max(260, Math.min(460, width * 0.5)),
      bounds = Object.entries(data.bounds[settings.indexOf(state.setting)]);
    panel(box, state.setting, {
      width, height,
      x: logAxis(points.map((p) => p.x), width - 76, 54, count),
      y: logAxis([...points.map((p) => p.y), ...bounds.map(([, rate]) => rate)], height - 64, 34),
      labels: { x: "nonzeros", y: unit() },
      draw(g, { x, y }, edges, hits) {
        bounds.forEach(([name, rate], i) => {
          const at = { class: "said", x: edges.left + 6, y: y(rate) + (i ? 11 : -3) }; // the second is the lower one
          g.append(svg("line", { class: "of-memory", x1: edges.left, x2: edges.right, y1: y(rate), y2: y(rate) }));
          g.append(svg("text", at, `${name}: ${digits(rate)}`));
        });
        const shown = points.length > MANY ? points.filter((p) => state.pinned.has(p.f)) : points;
        if (shown !== points) g.append(svg("text", { class: "said", x: edges.left + 6, y: edges.top + 10 }, FEWER));
        for (const [f, part] of layered(d3.group(shown, (p) => p.f))) {
          const size = points.length > 800 ? 2.8 : 3.8;
          g.append(dot(f, part.map((p) => marker(f, x(p.x), y(p.y), size)).join("")));
          for (const p of part) hits.push({ x: x(p.x), y: y(p.y), f, m: p.m, lines: told(p) });
        }
        for (const [f, line] of statistics.medians(points)) {
          const d = `M${line.map(([u, v]) => `${x(u).toFixed(1)},${y(v).toFixed(1)}`).join("L")}`;
          g.append(svg("path", { class: "f line only", "data-f": f, d }));
        }
      },
    });
  },

  // Slowdown of every format on every matrix.
  ratios(box) {
    const { order, cells } = statistic("ratios");
    if (!cells.some((c) => c.ratio)) return;
    const places = new Map(statistic("byMeanSlowdown").map((f, i) => [f, i]));
    const drawn = fewer(box, order, (f) => state.pinned.has(f), (f) => places.get(f) ?? Infinity),
      every = d3.sort(new Set(cells.map((c) => c.m)), (m) => -matrices.nnz[m]),
      columns = d3.sort(state.all ? every : every.slice(0, COLUMNS), (m) => matrices.name[m]);
    box.many = Math.max(box.many, every.length > COLUMNS ? every.length : 0);
    const said = (f) => `${formats.name[f]}${formats.project[f] ? " (project)" : ""}`;
    const width = box.clientWidth, left = gutter(drawn.map(said), width), step = (width - left - 8) / columns.length,
      named = step >= 11, top = named ? 12 + Math.min(130, LETTER * d3.max(columns, (m) => short(m).length)) : 8;
    const at = new Map(columns.map((m, i) => [m, left + i * step])),
      line = new Map(drawn.map((f, i) => [f, top + ROW * i]));
    const largest = columns.length < every.length ? `, the ${columns.length} largest of ${every.length} matrices` : "";
    panel(box, state.setting + largest, {
      width, height: top + ROW * drawn.length + 6, x: UNIT, y: UNIT,
      margins: { left, right: 8, top, bottom: 6 },
      draw(g, scales, edges, hits) {
        drawn.forEach((f, i) => {
          g.append(rowLabel(said(f), left, line.get(f) + ROW / 2, f));
          if (i && formats.family[drawn[i - 1]] !== formats.family[f])
            g.append(svg("line", { class: "part", x1: 0, x2: width, y1: line.get(f), y2: line.get(f) }));
        });
        const across = (step - 0.6).toFixed(1), bins = new Map(), shown = cells.filter((c) => line.has(c.f) && at.has(c.m));
        for (const c of shown) {
          const [x, y] = [at.get(c.m), line.get(c.f)];
          if (c.ratio) {
            const bin = Math.min(30, Math.round((30 * Math.log(c.ratio)) / Math.log(data.cap)));
            bins.set(bin, `${bins.get(bin) ?? ""}M${x.toFixed(1)},${y}h${across}v${ROW - 0.6}h-${across}z`);
          }
          hits.push({ x: x + step / 2, y: y + ROW / 2, w: step, h: ROW, f: c.f, m: c.m, lines: told(c) });
        }
        for (const [bin, d] of bins) g.append(svg("path", { fill: heat(data.cap ** (bin / 30)), d }));
        for (const c of step >= 26 ? shown : []) {
          const text = c.ratio < 9.95 ? c.ratio.toFixed(1) : count(Number(c.ratio.toPrecision(2)));
          const dark = d3.lab(heat(c.ratio)).l < 60 ? " dark" : "",
            kind = c.ratio ? `number${dark}${c.ratio <= data.tie ? " best" : ""}` : "number none",
            where = { class: kind, x: at.get(c.m) + step / 2, y: line.get(c.f) + 12 };
          g.append(svg("text", where, c.ratio ? text : (NOT[statusOf(c)] ?? "!")));
        }
        for (const m of named ? columns : []) {
          const turned = `translate(${at.get(m) + step / 2 + 4},${top - 4}) rotate(-90)`;
          g.append(svg("text", { class: "label start", transform: turned }, cut(short(m), 140)));
        }
      },
    });
    const color = (v) => html("span", { className: "swatch", style: `background:${heat(v)}` }),
      swatch = (v) => html("span", {}, color(v), `${v}x${v === data.cap ? " or more" : ""}`);
    box.after(html("p", { className: "legend" }, ...[1, 1.5, 2, 3, 5, data.cap].map(swatch)));
  },

  // Every format on one matrix, the fastest first; a bar is the bound.
  matrix(box) {
    const m = place.m.get(state.matrix) ?? d3.greatest(chosenMatrices(), (m) => matrices.nnz[m]);
    if (m === undefined) return;
    byId("matrix").value = matrices.name[m];
    const share = ({ rate, bound }) => (bound ? `, ${Math.round((100 * rate) / bound)} %` : "");
    const items = statistic("ratios").cells.filter((c) => c.m === m).map((c) => ({
      ...c, name: formats.name[c.f], value: c.ratio ? c.row.rate : null, bound: c.row.bound, lines: told(c),
      note: c.ratio ? `${times(c.ratio)}${share(c.row)}` : statusOf(c),
    }));
    const [height, nnz] = [matrices.rows, matrices.nnz].map((of) => count(of[m])),
      [mean, cv] = [matrices.mean, matrices.cv].map((of) => digits(of[m]));
    const about = `${height} rows of ${mean} entries in the mean, CV ${cv}; ${nnz} nonzeros; ${matrices.kind[m]}`;
    if (items.length) lines(box, about, items, { label: unit() });
  },

  // One format on every matrix, the smallest slowdown first.
  format(box) {
    const f = place.f.get(state.format) ?? statistic("ratios").order[0];
    if (f === undefined) return;
    byId("format").value = formats.name[f];
    const best = statistic("best");
    const items = statistic("ratios").cells.filter((c) => c.f === f).map((c) => {
      const { f: first, tied = [] } = best.get(c.m) ?? {};
      const won = first === f || tied.includes(f);
      const note = won ? "the best" : c.ratio ? `${times(c.ratio)} of ${formats.name[first]}` : statusOf(c);
      return { ...c, name: short(c.m), value: c.ratio || null, note, lines: told(c) };
    });
    const title = `the best on ${items.filter((c) => c.note === "the best").length} of ${counted(items.length, "matrix")}`;
    if (items.length) lines(box, title, items, { label: "slowdown: time over the best time", one: true });
  },
};
const heat = d3.scaleSequentialLog([1, data.cap], (t) => d3.interpolateYlGnBu(1 - t)).clamp(true);
const NOT = { ok: "", skipped: "-", wrong: "x" }, statusOf = (c) => data.statuses[c.row.status];

// The text of a tooltip of a case.
function told({ row, ratio }) {
  if (row.status !== OK) return [["status", statusOf({ row })]];
  const found = [[unit(), digits(row.rate)], ["time", seconds(row.time)]];
  if (ratio) found.push(["slowdown", digits(ratio, 4)]);
  if (row.bound) found.push(["bound", digits(row.bound)]);
  if (row.bytes) found.push(["bytes/nonzero", digits(row.bytes)]);
  return found;
}

// The button of what shows the first of many before it is pressed.
function everything(many) {
  const text = state.all ? "the first only" : `all ${many}`,
    more = html("button", { type: "button", className: "more" }, text);
  more.addEventListener("click", () => {
    const place = more.closest("figure, section");
    state.all = state.all ? "" : "yes";
    changed("filter");
    place.querySelector(".more")?.focus();
  });
  return more;
}

// Figures are drawn when they come near the window, and again when their rows change.
const figures = [...document.querySelectorAll("figure[data-view]")], stale = new Set(figures), near = new Set();
function draw(figure) {
  const box = figure.querySelector(".panels");
  for (const old of figure.querySelectorAll(".legend, .more")) old.remove();
  box.replaceChildren();
  box.many = 0;
  views[figure.dataset.view](box);
  if (!box.children.length) box.append(html("p", { className: "quiet" }, "No case passes the filter."));
  if (box.many > FEW) box.after(everything(box.many));
  // The legend: marks of coloured formats, and the number of grey ones; labels of rows replace it.
  const present = new Set([...box.querySelectorAll(".f[data-f]")].map((e) => Number(e.dataset.f)));
  box.classList.toggle("few", present.size <= COLORED);
  if (!present.size || box.querySelector("text.row")) return;
  const colored = present.size <= COLORED ? [...present] : [...state.pinned].filter((f) => present.has(f));
  const button = (f) => html("button", { type: "button", "data-f": f, className: "entry" }, icon(f), formats.name[f]);
  const entries = colored.map(button);
  const others = present.size - colored.length;
  if (others) entries.push(html("span", { className: "quiet" }, `${others} other format${others > 1 ? "s" : ""}`));
  if (box.querySelector(".line.only")) entries.push(html("span", {}, "line: median of similar sizes"));
  box.after(html("p", { className: "legend" }, ...entries));
}
const drawAll = (which = figures) => which.forEach((figure) => stale.delete(figure) && draw(figure));
new ResizeObserver(() => {
  for (const figure of figures) if (figure.drawn !== figure.clientWidth) stale.add(figure);
  for (const figure of figures) figure.drawn = figure.clientWidth;
  drawAll(near);
}).observe(document.querySelector("main"));
const watcher = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) near[isIntersecting ? "add" : "delete"](target);
    drawAll(near);
  },
  { rootMargin: "600px" },
);
for (const figure of figures) watcher.observe(figure);

// Colours: highlighted formats are coloured, others grey; while the pointer is on a format, all others are faint.
const colors = html("style"), lit = html("style");
const ink = (color) => (color === "#000000" ? "var(--ink)" : color);
colors.textContent = everyFormat.map((f) => `[data-f="${f}"]{--mark:${ink(formats.color[f])}}`).join("");
document.head.append(colors, lit);
function light() {
  const chosen = [...state.pinned, ...(state.hovered === null ? [] : [state.hovered])].map((f) => `[data-f="${f}"]`);
  const on = chosen.length ? `:is(${chosen.join(",")})` : ":not(*)";
  const one = state.hovered === null ? "" : `[data-f="${state.hovered}"]`;
  lit.textContent =
    `.f${on}{fill:var(--shade);stroke:var(--shade);opacity:1}text.f${on}{font-weight:600}` +
    `.panels:not(.few) .f.only:not(${on}){display:none}` +
    (one && `.f:not(text,${one}){opacity:.14}tr${one}>*{background:var(--best)}`);
}
onChanged((what) => {
  light();
  if (what === "hover") {
    for (const e of document.querySelectorAll(`.panel .f[data-f="${state.hovered}"]:not(text)`)) e.parentNode.append(e);
    return;
  }
  for (const figure of figures) stale.add(figure);
  drawAll(near);
});
