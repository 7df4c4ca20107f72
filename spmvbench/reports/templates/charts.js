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
          if (roof) roofs(g, place, edge, roof, xs.domain, ys.domain);
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
function roofs(g, place, edge, roof, xs, ys) {
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
