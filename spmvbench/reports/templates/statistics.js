"use strict";
// Statistics of the page's views: pure functions of rows, equal to those of spmvbench/analysis in their comments.
// A row is a case of one setting: { i, f, m, status, time, rate, bytes, error, bound, program, ready }; f and m are the places of
// its format and matrix. formats: { name, family, experiment, alias, plain } in columns.
// tests/reports/test_statistics.py compares both in a browser.

function statisticsOf({ formats, statuses, tie, cap, trend }) {
  const OK = statuses.indexOf("ok"),
    FAILED = ["implausible", "timeout", "crashed", "oom", "error"].map((status) => statuses.indexOf(status));
  const none = (v) => v === null || v === undefined || Number.isNaN(v);
  const geometric = (values) => (values.length ? Math.exp(d3.mean(values, Math.log)) : NaN);
  // Of the same rows once: views ask for the same steps, and rows may be half a million.
  function remembered(compute) {
    const found = new WeakMap();
    return (rows) => {
      if (!found.has(rows)) found.set(rows, compute(rows));
      return found.get(rows);
    };
  }
  const program = (r) => r.m * 2 ** 20 + r.program, caseOf = (m, f) => m * 2 ** 20 + f;
  const byName = (a, b) => d3.ascending(formats.name[a], formats.name[b]);

  // cases.counted: without experiments and without further names of a format among the rows.
  const counted = remembered((rows) => {
    const there = new Set(rows.map((r) => r.f).filter((f) => !formats.experiment[f]));
    return rows.filter((r) => there.has(r.f) && !there.has(formats.alias[r.f]));
  });

  // programs.same_as: by row the format that represents its program on the matrix; none if the row's own does.
  function sameAs(rows) {
    const first = new Map(), named = rows.filter((r) => !none(formats.alias[r.f])), found = new Map();
    const meant = new Set(named.map((r) => formats.alias[r.f])),
      there = new Set(rows.filter((r) => meant.has(r.f)).map((r) => caseOf(r.m, r.f)));
    const place = (r) => formats.plain[r.f] + (r.status === OK ? 0 : formats.name.length);
    for (const r of rows) {
      if (none(r.program)) continue;
      const other = first.get(program(r));
      if (other === undefined || place(r) < place(other)) first.set(program(r), r);
    }
    for (const r of rows) {
      const representative = none(r.program) ? r.f : first.get(program(r)).f, alias = formats.alias[r.f];
      if (representative !== r.f) found.set(r, representative);
      else if (!none(alias) && there.has(caseOf(r.m, alias))) found.set(r, alias);
    }
    return found;
  }

  // programs.aliases: formats that are another's name on every matrix, with the format that represents both. Rows are
  // in the order of matrices.
  const aliases = remembered((rows) => {
    const groups = d3.sort(d3.groups(rows, (r) => r.f), ([f]) => formats.plain[f]),
      there = new Set(groups.map(([f]) => f)), names = new Map(), first = new Map();
    for (const f of there) if (there.has(formats.alias[f])) names.set(f, formats.alias[f]);
    for (const [f, part] of groups) {
      const right = part.filter((r) => r.status === OK);
      if (!right.length || right.some((r) => none(r.program))) continue;
      const cases = right.map((r) => `${r.m} ${r.program}`).join();
      if (!first.has(cases)) first.set(cases, f);
      else if (!names.has(f)) names.set(f, first.get(cases));
    }
    return names;
  });
  const withoutAliases = remembered((rows) => rows.filter((r) => !aliases(rows).has(r.f)));

  // ranking.ranked: verified rows with a rate, each with its ratio, time over the best time on the matrix.
  const ranked = remembered((rows) => {
    const right = counted(rows).filter((r) => r.status === OK && r.rate > 0), best = [];
    for (const { m, time } of right) best[m] = Math.min(best[m] ?? Infinity, time);
    return right.map((row) => ({ row, f: row.f, m: row.m, ratio: row.time / best[row.m] }));
  });
  const ratioOf = remembered((rows) => { // by the number of a case, if it is ranked
    const found = [];
    for (const { row, ratio } of ranked(rows)) found[row.i] = ratio;
    return found;
  });

  // ranking.mean_slowdowns: by format { slowdown, wins, ties }; matrices that a format did not solve count as the cap.
  const meanSlowdowns = remembered((rows) => {
    const table = ranked(withoutAliases(rows)), same = sameAs(table.map((t) => t.row)),
      every = new Set(table.map((t) => t.m)).size;
    const first = table.filter((t) => t.ratio <= tie && !same.has(t.row)),
      sharing = d3.rollup(first, (part) => part.length, (t) => t.m);
    const count = (some) => d3.rollup(some, (part) => part.length, (t) => t.f),
      wins = count(first.filter((t) => sharing.get(t.m) === 1)),
      ties = count(first.filter((t) => sharing.get(t.m) > 1));
    return d3.rollup(
      table,
      (part) => {
        const logs = d3.sum(part, (t) => Math.log(Math.min(t.ratio, cap))) + (every - part.length) * Math.log(cap);
        return { slowdown: Math.exp(logs / every), wins: wins.get(part[0].f) ?? 0, ties: ties.get(part[0].f) ?? 0 };
      },
      (t) => t.f,
    );
  });

  // ranking.by_mean_slowdown.
  function byMeanSlowdown(rows) {
    const log = new Map([...meanSlowdowns(rows)].map(([f, v]) => [f, Number(Math.log(v.slowdown).toFixed(12))]));
    return [...log.keys()].sort((a, b) => log.get(a) - log.get(b) || byName(a, b));
  }

  // coverage.coverage: a line for each format, by mean slowdown, then by coverage.
  function coverage(rows) {
    const names = aliases(rows), means = meanSlowdowns(rows), ratio = ratioOf(withoutAliases(rows));
    const lines = d3.rollups(
      rows,
      (part) => {
        const { f } = part[0], count = (which) => part.filter(which).length, right = part.filter((r) => r.status === OK), ok = right.length,
          solved = part.filter((r) => ratio[r.i] > 0),
          worst = d3.greatest(solved, (r) => ratio[r.i]);
        const mean = (value, of) => geometric(of.map(value).filter((v) => v > 0));
        const { slowdown, wins, ties } = means.get(f) ?? { slowdown: NaN, wins: 0, ties: 0 };
        return {
          f,
          label: formats.name[f],
          same_as: formats.alias[f] ?? names.get(f) ?? null,
          mean_slowdown: slowdown, wins, ties, ok,
          cases: part.length, coverage: ok / part.length,
          skipped: count((r) => statuses[r.status] === "skipped"),
          wrong: count((r) => statuses[r.status] === "wrong"),
          failed: count((r) => FAILED.includes(r.status)),
          gflops: mean((r) => r.rate, solved),
          worst_slowdown: worst ? ratio[worst.i] : NaN,
          worst_matrix: worst?.m ?? null,
          bytes_per_nnz: mean((r) => r.bytes, right), conversion: mean((r) => r.ready / r.time, right.filter((r) => r.time)),
          error_ratio: d3.max(part, (r) => r.error) ?? NaN,
        };
      },
      (r) => r.f,
    ).map(([, line]) => line);
    const last = (v) => (Number.isNaN(v) ? Infinity : v);
    const order = (a, b) => d3.ascending(last(a.mean_slowdown), last(b.mean_slowdown)) || b.coverage - a.coverage;
    return lines.sort((a, b) => order(a, b) || byName(a.f, b.f));
  }

  // profiles.performance_profile: by format the points [tau, rho] of its step function, the first at tau = 1.
  function profile(rows) {
    const table = ranked(rows), every = Math.max(1, new Set(table.map((t) => t.m)).size),
      held = d3.group(table, (t) => t.f);
    return new Map(
      [...new Set(counted(rows).map((r) => r.f))].map((f) => {
        const steps = new Map([[1, 0]]);
        d3.sort((held.get(f) ?? []).map((t) => t.ratio)).forEach((tau, i) => steps.set(tau, (i + 1) / every));
        return [f, [...steps]];
      }),
    );
  }

  // ratios.ratios: formats in order, families by their best, and cells { row, f, m, ratio }, NaN if not verified.
  function ratios(rows) {
    const every = withoutAliases(counted(rows)), ratio = ratioOf(every),
      places = new Map(byMeanSlowdown(every).map((f, place) => [f, place]));
    const place = (f) => places.get(f) ?? places.size, shown = [...new Set(every.map((r) => r.f))],
      first = d3.rollup(shown, (part) => d3.min(part, place), (f) => formats.family[f]);
    const order = shown.sort(
      (a, b) =>
        first.get(formats.family[a]) - first.get(formats.family[b]) ||
        d3.ascending(formats.family[a], formats.family[b]) ||
        place(a) - place(b) ||
        byName(a, b),
    );
    return { order, cells: every.map((row) => ({ row, f: row.f, m: row.m, ratio: ratio[row.i] ?? NaN })) };
  }

  // ranking.best_formats: by matrix { f, margin, tied }, margin the time of the second over that of the best.
  function best(rows) {
    const all = ranked(withoutAliases(rows)), same = sameAs(all.map((t) => t.row)), means = meanSlowdowns(rows);
    const order = (a, b) => means.get(a.f).slowdown - means.get(b.f).slowdown || byName(a.f, b.f);
    return d3.rollup(
      all.filter((t) => !same.has(t.row)),
      (part) => {
        const [first, ...tied] = part.filter((t) => t.ratio <= tie).sort(order);
        const margin = d3.sort(part.map((t) => t.ratio))[1] ?? NaN;
        return { f: first.f, rate: first.row.rate, margin, tied: tied.map((t) => t.f).sort(byName) };
      },
      (t) => t.m,
    );
  }

  // trend.medians: by format the points [x, y] of its trend, medians of y in bins of x.
  function medians(points) {
    const low = d3.min(points, (p) => p.x), width = Math.log((d3.max(points, (p) => p.x) * 1.001) / low) / trend.bins;
    const line = (part) =>
      [...d3.group(part, (p) => Math.floor(Math.log(p.x / low) / width + 1e-12))]
        .filter(([, some]) => some.length >= trend.points)
        .sort(([a], [b]) => a - b)
        .map(([bin, some]) => [low * Math.exp((bin + 0.5) * width), d3.median(some, (p) => p.y)]);
    return new Map([...d3.rollup(points, line, (p) => p.f)].filter(([, found]) => found.length >= trend.least));
  }

  return { OK, sameAs, aliases, ranked, byMeanSlowdown, coverage, profile, ratios, best, medians };
}
