const answer = {};
const named = (some) => Object.fromEntries([...some].map(([f, value]) => [formats.name[f], value]));
for (const filter of FILTERS) {
  decode(filter);
  known.clear();
  const given = rows();
  const { order, cells } = statistics.ratios(given);
  answer[filter] = {
    coverage: statistics.coverage(given).map((line) => ({
      ...line,
      same_as: line.same_as === null ? null : formats.name[line.same_as],
      worst_matrix: matrices.name[line.worst_matrix] ?? "",
    })),
    order: namesOf(order),
    cells: cells.map((c) => [formats.name[c.f], matrices.name[c.m], data.statuses[c.row.status], c.ratio]),
    profile: named(statistics.profile(given)),
    best: Object.fromEntries(
      [...statistics.best(given)].map(([m, best]) => [
        matrices.name[m],
        { ...best, label: formats.name[best.f], tied: namesOf(best.tied) },
      ]),
    ),
    rates: statistics.ranked(given).map((t) => [formats.name[t.f], matrices.name[t.m], t.row.rate]),
    aliases: named([...statistics.aliases(given)].map(([f, of]) => [f, formats.name[of]])),
    same: [...statistics.sameAs(given)].map(([row, of]) => [formats.name[row.f], matrices.name[row.m], formats.name[of]]),
  };
}
return JSON.stringify(answer);
