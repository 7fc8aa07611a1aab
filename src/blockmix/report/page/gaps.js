// Gaps: the missing cells of the table.

/** Share of missing cells of each column that has any, in all rows and by component. */
function gaps(found) {
  const order = found.columns.map((_, k) => k).sort((a, b) => found.all[b] - found.all[a]);
  const each = (k) => (report.isMixture ? found.each.map((shares) => share(shares[k])) : []);
  const make = (query) => order.filter((k) => columnName(found.columns[k]).toLowerCase().includes(query))
    .map((k) => () => row([columnName(found.columns[k]), share(found.all[k]), ...each(k)]));
  const heads = ["Column", "All rows", ...(report.isMixture ? found.each.map((_, g) => `Component ${g}`) : [])];
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const clusters = report.isMixture ? ` By component: ${found.components.map(percent).join(", ")}.` : "";
  section("gaps", "Gaps",
    h("p", {}, `${count(found.cells, "cell")} missing, ${percent(found.share)} of all; `
      + `${count(found.complete, "row")} without a gap.${clusters} Columns with gaps:`),
    searchable("gap-table", "column", heads, make));
}
