// Overview: the objective, the stability of the clusters and the candidates that were compared.

const STABLE = "Stability: mean overlap (Jaccard index) of a cluster with the most similar one when the rows are weighted "
  + "at random and fitted again. Certainty: the overlap that the fitted model itself expects; it shows how far clusters "
  + "run into each other.";

function clusterStability() {
  const stable = report.stability?.clusters;
  if (!stable) return null;
  const lines = stable.map((again, g) => row([calledCluster(g), report.summaries[g].rows, share(report.summaries[g].weight),
    figure(again.stability), again.verdict, figure(again.certainty)]));
  return h("div", {}, h("h3", {}, "Clusters fitted again"),
    table("Stability of the clusters", ["Cluster", "Rows", "Weight", "Stability", "In a word", "Certainty"], lines),
    h("p", { class: "hint" }, STABLE));
}

function trace() {
  const values = report.trace;
  if (values.length < 2) return null;
  const label = `Objective from ${values[0].toFixed(1)} to ${values.at(-1).toFixed(1)} in ${values.length} iterations`;
  return h("div", {}, h("h3", {}, "Objective by iteration"),
    downloadable("objective", chart(label, [values.map((y, i) => ({ x: i + 1, y }))], "iteration", "")),
    h("p", { class: "hint" }, "Log-likelihood plus the penalties of the fit; it never decreases."));
}

/** The first words of an outcome; what is long follows in a row of its own. */
function outcome(line) {
  const [word, ...rest] = line.outcome.split(": ");
  return rest.length ? cell(h("span", { "data-rest": rest.join(": ") }, word), line.outcome) : word;
}

function told(line) {
  const rest = line.querySelector("[data-rest]")?.dataset.rest;
  return rest ? [line, h("tr", { class: "told" }, h("td", { colspan: line.children.length }, rest))] : [line];
}

function selection() {
  const given = report.selection;
  if (!given) return null;
  const name = given.criterion.toUpperCase();
  const fitted = given.rows.filter((line) => line[given.criterion] !== null);
  const series = [...new Set(fitted.map((line) => line.asked))].map((asked) =>
    fitted.filter((line) => line.asked === asked)
      .map((line) => ({ x: line.components, y: line[given.criterion], mark: line.best ? "best" : "point" })));
  const least = (cell) => (given.stabilityNote ? [cell] : []);
  const lines = given.rows.map((line) => row([
    String(line.components) + (line.best ? " (best)" : ""), line.asked, line.groups.join(", ") || "–",
    line.parameters, figure(line.bic, 1), figure(line.icl, 1), ...least(figure(line.leastStable)), outcome(line),
  ], { class: line.best ? "best" : null })).flatMap(told);
  const heads = ["Clusters", "Asked for", "Groups found", "Parameters", "BIC", "ICL", ...least("Least stable"),
    "Outcome"];
  return h("div", { class: "wide" }, h("h3", {}, "Candidates compared"),
    h("div", { class: "candidates" },
      series.length
        ? downloadable(`${name} of candidates`, chart(`${name} by number of clusters`, series, "clusters", name))
        : null,
      table("Candidates and their criteria", heads, lines)),
    given.reason ? h("p", { class: "hint" }, given.reason + ".") : null,
    given.level.length
      ? table(`Models that ${name} cannot tell from the best one`, ["Level model", `${name} beyond the best`, "Agreement of its clusters"],
        given.level.map(([words, difference, agreement]) => row([words, figure(difference, 1), figure(agreement, 2)])))
      : null,
    ...least(h("p", { class: "hint" }, given.stabilityNote)));
}
