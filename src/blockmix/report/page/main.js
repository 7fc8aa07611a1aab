// The page about a mixture or a covariance: its sections in order.

const WITHOUT_ROWS = "This page was written without the data, so it has no checkerboard and no observed correlations. "
  + "To include them, use write_report(model, path, X).";
const CORRELATIONS = "Which columns vary together. Blue is negative, red is positive, and frames are column groups. "
  + "Estimated correlations are zero between groups. The slider cuts the tree into another number of groups.";

function page() {
  const rows = report.summaries.reduce((sum, line) => sum + (line.rows ?? 0), 0);
  heading([], `${rows ? `${count(rows, "row")}, ` : ""}${count(report.columns.length, "column")}`);
  answerSection();
  const missing = h("p", { class: "note", id: "without-rows" }, WITHOUT_ROWS);
  if (!report.hasRows) document.getElementById("main").append(missing);
  if (report.differences) differences(report.differences);
  traitSection();
  if (report.map) rowMap(report.map);
  if (report.checkerboard) checkerboard(report.checkerboard);
  if (report.gaps) missingValues(report.gaps);
  section("components", report.isMixture ? "Correlations" : "Correlation", h("p", {}, CORRELATIONS),
    report.stability ? h("p", { class: "note" }, report.stability.note) : null,
    report.views.map((view, index) => new ComponentPanel(view, index).element));
  biclusters();
  moves();
  if (report.rows) rowTable(report.rows);
  made(facts(), clusterStability(), h("div", { class: "pair" }, trace(), selection()));
}

page();
themes();
