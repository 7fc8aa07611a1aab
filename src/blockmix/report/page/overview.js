// Overview: components, known classes, the objective and the candidates that were compared.

const STABLE = "Stability: mean overlap (Jaccard index) of a cluster with the most similar one when the rows are weighted "
  + "at random and fitted again. Certainty: the overlap that the fitted model itself expects; it shows how far clusters "
  + "run into each other.";

function overview() {
  section("overview", "Overview", warnings(), facts(),
    report.isMixture ? components() : null, h("div", { class: "pair" }, classes(), trace(), selection()));
}

function components() {
  const stable = report.stability?.clusters;
  const lines = report.summaries.map((line, g) => {
    const link = h("a", { href: `#component-${Math.min(g, report.views.length - 1)}` }, `Component ${g}`);
    const again = stable?.[g];
    return row([link, line.rows, share(line.weight), line.groups, line.largest, line.alone, figure(line.certainty, 3),
      ...(again ? [figure(again.stability), again.verdict, figure(again.certainty)] : [])]);
  });
  const heads = ["Component", "Rows", "Weight", "Column groups", "Largest group", "Columns alone", "Mean probability"];
  const found = stable ? ["Stability", "In a word", "Certainty"] : [];
  return [table("Components", [...heads, ...found], lines), stable ? h("p", { class: "hint" }, STABLE) : null];
}

function classes() {
  const known = report.classes;
  if (!known) return null;
  const matched = `${(100 * known.accuracy).toFixed(1)} % of the rows are in the component that matches their class.`;
  const unknown = known.unknown ? ` Rows without a known class, not counted: ${thousands(known.unknown)}.` : "";
  const rest = (other) => (known.others ? [other] : []);
  const lines = known.counts.map((counts, g) => row([`Component ${g}`, ...counts, ...rest(known.otherCounts[g])]));
  const heads = ["", ...known.names, ...rest(`${thousands(known.others)} others`)];
  return h("div", {}, h("h3", {}, "Known classes"),
    h("p", {}, `Adjusted Rand index ${known.ari.toFixed(2)}; ${matched}${unknown}`),
    table("Rows by component and known class", heads, lines));
}

function trace() {
  const values = report.trace;
  if (values.length < 2) return null;
  const label = `Objective from ${values[0].toFixed(1)} to ${values.at(-1).toFixed(1)} in ${values.length} iterations`;
  return h("div", {}, h("h3", {}, "Objective by iteration"),
    downloadable("objective", chart(label, [values.map((y, i) => ({ x: i + 1, y }))], "iteration", "")),
    h("p", { class: "hint" }, "Log-likelihood plus the penalties of the fit; it never decreases."));
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
    line.parameters, figure(line.bic, 1), figure(line.icl, 1), ...least(figure(line.leastStable)), line.outcome,
  ], { class: line.best ? "best" : null }));
  const heads = ["Components", "Groups requested", "Groups found", "Parameters", "BIC", "ICL", ...least("Least stable"),
    "Outcome"];
  return h("div", { class: "wide" }, h("h3", {}, "Candidates compared"),
    h("div", { class: "candidates" },
      series.length
        ? downloadable(`${name} of candidates`, chart(`${name} by number of components`, series, "components", name))
        : null,
      table("Candidates and their criteria", heads, lines)),
    ...least(h("p", { class: "hint" }, given.stabilityNote)));
}
