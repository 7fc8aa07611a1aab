// Overview: key figures, warnings, known classes, the objective and the candidates that were compared.

function overview() {
  const facts = report.facts.map(({ name, value, note }) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null)));
  section("overview", "Overview", warnings(), h("dl", { class: "facts" }, facts),
    report.isMixture ? components() : null, h("div", { class: "pair" }, classes(), trace(), selection()));
}

function warnings() {
  if (!report.warnings.length) return h("p", { class: "fine" }, "The fit gave no warnings.");
  const heading = h("h3", {}, `${count(report.warnings.length, "warning")} from the fit`);
  return h("div", { class: "warn", role: "note" }, heading,
    h("ul", {}, report.warnings.map((text) => h("li", {}, text))));
}

function components() {
  const share = (weight) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(1, 100 * weight)}px`;
    return h("span", { class: "share" }, bar, `${(100 * weight).toFixed(1)} %`);
  };
  const lines = report.summaries.map((line, g) => {
    const link = h("a", { href: `#component-${Math.min(g, report.views.length - 1)}` }, `Component ${g}`);
    const certainty = line.certainty === null ? "–" : line.certainty.toFixed(3);
    return row([link, line.rows ?? "–", share(line.weight), line.groups, line.largest, line.alone, certainty]);
  });
  const heads = ["Component", "Rows", "Weight", "Column groups", "Largest group", "Columns alone", "Mean probability"];
  return table("Components", heads, lines);
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
    chart(label, [values.map((y, i) => ({ x: i + 1, y }))], "iteration", ""),
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
  const number = (value) => (value === null ? "–" : value.toFixed(1));
  const lines = given.rows.map((line) => row([
    String(line.components) + (line.best ? " (best)" : ""), line.asked, line.groups.join(", ") || "–",
    line.parameters ?? "–", number(line.bic), number(line.icl), line.outcome,
  ], { class: line.best ? "best" : null }));
  const heads = ["Components", "Groups requested", "Groups found", "Parameters", "BIC", "ICL", "Outcome"];
  return h("div", { class: "wide" }, h("h3", {}, "Candidates compared"),
    h("div", { class: "candidates" },
      series.length ? chart(`${name} by number of components`, series, "components", name) : null,
      table("Candidates and their criteria", heads, lines)));
}

/** Line chart of series of points {x, y, mark}, x whole numbers; marked points have a dot. */
function chart(label, series, xName, yName) {
  const [xs, ys] = ["x", "y"].map((axis) => series.flat().map((point) => point[axis]));
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const digits = high - low < 10 ? 1 : 0;
  const number = (y) => thousands(y.toFixed(digits)).replace("-", "−");
  const margin = Math.max(60, 16 + Math.max(...[number(low), number(high), yName].map(textWidth)));
  const X = (x) => margin + 4 + (right > left ? (x - left) / (right - left) : 0.5) * (384 - margin);
  const Y = (y) => 12 + (high > low ? (high - y) / (high - low) : 0.5) * 120;
  const text = (x, y, anchor, words) => h("text", { x, y, "text-anchor": anchor }, words);
  const level = (y) => [
    h("line", { x1: margin, x2: 390, y1: Y(y), y2: Y(y), class: "rule" }),
    text(margin - 6, Y(y) + 4, "end", number(y)),
  ];
  const ticks = right - left < 12 ? [...new Set(xs)] : [left, right];
  const line = (points, i) => h("g", { class: `series-${i % 6}` },
    h("path", { d: points.map(({ x, y }, k) => `${k ? "L" : "M"}${X(x)} ${Y(y)}`).join("") }),
    points.filter(({ mark }) => mark)
      .map(({ x, y, mark }) => h("circle", { cx: X(x), cy: Y(y), r: mark === "best" ? 5 : 3, class: mark })));
  return h("svg", { viewBox: "0 0 400 176", role: "img", "aria-label": label, class: "chart" },
    [...new Set([high, low])].map(level), ticks.map((x) => text(X(x), 150, "middle", String(x))),
    text((margin + 388) / 2, 168, "middle", xName), text(margin - 6, 76, "end", yName), series.map(line));
}

/** Width of a text in a chart. */
function textWidth(text) {
  const context = h("canvas").getContext("2d");
  context.font = `11px ${FONT}`;
  return context.measureText(text).width;
}
