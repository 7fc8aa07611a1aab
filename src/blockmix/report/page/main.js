// The page about a mixture or a covariance: its sections in order.

const WITHOUT_ROWS = "This page was written without the data, so it has no checkerboard and no observed correlations. "
  + "To include them, use write_report(model, path, X).";
const CORRELATIONS = "Which columns vary together. Blue is negative, red is positive, and frames are column groups. "
  + `Between groups, estimated correlations are ${report.views.some(({ shared }) => shared) ? "what all columns share" : "zero"}. `
  + "The slider cuts the tree into another number of groups.";

function page() {
  const rows = report.summaries.reduce((sum, line) => sum + (line.rows ?? 0), 0);
  heading([], `${rows ? `${count(rows, "row")}, ` : ""}${count(report.columns.length, "column")}`);
  answerSection();
  const main = document.getElementById("main");
  const parts = [
    () => report.hasRows || main.append(h("p", { class: "note", id: "without-rows" }, WITHOUT_ROWS)),
    () => report.differences && differences(report.differences),
    traitSection,
    () => report.map && rowMap(report.map),
    () => report.checkerboard && checkerboard(report.checkerboard),
    () => report.gaps && missingValues(report.gaps),
    correlations,
    biclusters,
    moves,
    () => report.rows && rowTable(report.rows),
    () => made(facts(), clusterStability(), h("div", { class: "pair" }, trace(), selection())),
  ];
  // Of a large table the answer is painted before the rest is drawn.
  const later = rows > 5000 || report.columns.length > 300;
  const next = () => {
    parts.shift()();
    if (parts.length) setTimeout(next, 0);
  };
  if (later) requestAnimationFrame(() => setTimeout(next, 0));
  else parts.forEach((part) => part());
}

function correlations() {
  section("components", report.isMixture ? "Correlations" : "Correlation", h("p", {}, CORRELATIONS),
    report.stability ? h("p", { class: "note" }, report.stability.note) : null,
    report.views.map((view, index) => new ComponentPanel(view, index).element));
}

page();
themes();
