// Differences: the columns and the column groups that mark a cluster.

const APART = "Mean of a cluster less the mean of all others, in standard deviations within clusters. Columns in which it lies "
  + "beyond every other cluster come first and are bold.";
const SCORES = "Mean score of each cluster in the column groups: the mean of the group's standardized columns, those "
  + "that go against the others turned round, in standard deviations from the mean of all rows. A group that several "
  + "clusters have is shown once.";

function differences(found) {
  const weights = report.summaries.map(({ weight }) => weight);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const rest = (g, column) => weights.reduce((sum, weight, other) =>
    sum + (other === g ? 0 : (weight * found.means[other][column]) / (total - weights[g])), 0);
  const lines = () => [["cluster", "column", "difference", "mean", "mean_of_others"],
    ...found.columns.flatMap((own, g) => own.map((value, column) =>
      [clusterName(g), columnName(column), value, found.means[g][column], plain(rest(g, column))]))];
  const largest = Math.max(...found.columns.flatMap((own) => own.map(Math.abs)));
  const line = (g, column) => h("tr", {}, h("th", { scope: "row" }, found.singled[g].includes(column) ? named(columnName(column), "b") : named(columnName(column))),
    h("td", { class: "wide-bar" }, signedBar(found.columns[g][column], largest, componentColor(g))),
    h("td", { class: "figure" }, signed(found.columns[g][column], 1)),
    h("td", { class: "figure soft" }, `${short(found.means[g][column])} against ${short(rest(g, column))}`));
  const heads = ["Column", "Difference", "", "Mean against others"];
  const part = (g, word, columns) => (columns.length ? h("table", { class: "bars" },
    h("caption", {}, called(`cluster ${g + 1}`, "span"), ` is ${word}`),
    h("thead", { class: "unseen" }, h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, columns.map((column) => line(g, column)))) : null);
  const card = ([high, low], g) => h("div", {}, h("h3", {}, mark(g), calledCluster(g)), part(g, "high", high), part(g, "low", low),
    high.length + low.length ? null : h("p", { class: "hint" }, "No mean stands out."));
  // Of two clusters one is the opposite of the other.
  const cards = found.marks.slice(0, found.marks.length === 2 ? 1 : undefined).map(card);
  section("apart", ["What marks the clusters", "Clusters"], profiles(found.groups), h("h3", { class: "second" }, "Columns that mark a cluster"),
    h("p", {}, APART), h("div", { class: "cards" }, cards), h("div", { class: "gets" }, csvButton("differences", lines)));
}

/** A number as files have it: without digits that mean nothing. */
function plain(value) {
  return Number(value.toPrecision(4));
}

function short(value) {
  const size = Math.abs(value);
  const text = size >= 1e6 || (size > 0 && size < 1e-3) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  return text.replaceAll("-", "−");
}

/** A bar to the left or right of the middle. */
function signedBar(value, largest, color) {
  const bar = h("span", { "aria-hidden": "true" });
  const width = (50 * Math.abs(value)) / largest;
  Object.assign(bar.style, { background: color, width: `${width}%`, left: `${value < 0 ? 50 - width : 50}%` });
  return h("span", { class: "signed-bar" }, bar);
}

/** The sign of a component: its color and shape, as in the map of the rows. */
function mark(g) {
  return h("svg", { class: "sign", viewBox: "0 0 12 12", "aria-hidden": "true" },
    h("path", { d: shapePath(g, 6, 6, 4.6), fill: componentColor(g) }));
}

/** Path of the shape of a component: circle, square, triangle or diamond. */
function shapePath(g, x, y, r) {
  const points = (list) => `M${list.map(([dx, dy]) => `${(x + dx).toFixed(2)} ${(y + dy).toFixed(2)}`).join("L")}Z`;
  const s = 0.89 * r;
  return [
    `M${x - r} ${y}A${r} ${r} 0 1 1 ${x + r} ${y}A${r} ${r} 0 1 1 ${x - r} ${y}Z`,
    points([[-s, -s], [s, -s], [s, s], [-s, s]]),
    points([[0, -1.15 * r], [1.1 * r, 0.8 * r], [-1.1 * r, 0.8 * r]]),
    points([[0, -1.25 * r], [1.25 * r, 0], [0, 1.25 * r], [-1.25 * r, 0]]),
  ][Math.floor(g / COMPONENT_COLORS.length + g) % 4];
}

/** Scores of the components in the groups of each of them, as points on a line for each group. */
function profiles(scores) {
  if (!scores.some((own) => own.length)) return null;
  const box = responsive((width) => profile(scores, width));
  const heads = () => ["groups_of", "group", "columns", ...report.summaries.map((_, g) => clusterName(g))];
  const lines = () => [heads(), ...profiled().map(({ v, number, columns, scores: line }) =>
    [viewName(v), groupName(number), columns.map(columnName).join("; "), ...line])];
  return [h("h3", {}, "Profiles of the column groups"), h("p", {}, SCORES), box,
    h("div", { class: "gets" }, legend(), svgButton("profiles", () => box.firstChild), csvButton("profiles", lines))];
}

function legend() {
  return h("span", { class: "legend" }, report.summaries.map((_, g) => h("span", {}, mark(g), calledCluster(g))));
}

function profile(scores, width) {
  const narrow = width < 560;
  const [left, step] = [narrow ? 14 : Math.round(width * 0.42), narrow ? 40 : 26];
  const most = Math.max(...scores.flat(2).map(Math.abs)) * 1.08;
  const X = (value) => left + ((value / most + 1) / 2) * (width - left - 14);
  const context = h("canvas").getContext("2d");
  context.font = `12px ${FONT}`;
  let y = 4;
  const columnsOf = scores.map((own, v) => groupsOf(report.views[v].labels));
  const first = (v, k) => columnsOf.findIndex((groups) => groups.some((group) => String(group) === String(columnsOf[v][k])));
  const line = (own, k, v) => {
    const columns = columnsOf[v][k];
    const text = `${groupName(report.families[v][columns[0]])} · ${columns.length}: ${loaded(v, columns).map(({ name }) => name).join(", ")}`;
    const name = fitted(context, text, narrow ? width - 28 : left - 16);
    y += step;
    return h("g", {}, h("title", {}, `${text}: ${own.map((value, g) => `${clusterName(g)} ${signed(value)}`).join(", ")}`),
      narrow ? h("text", { x: left, y: y - 24 }, name) : h("text", { x: left - 10, y: y - 6, "text-anchor": "end" }, name),
      h("line", { x1: left, x2: width - 14, y1: y - 10, y2: y - 10, class: "rule" }),
      own.map((value, g) => h("path", { d: shapePath(g, X(value), y - 10, 5.5), fill: componentColor(g) })));
  };
  const part = (own, v) => {
    if (!own.some((_, k) => first(v, k) === v)) return [];
    const title = scores.length > 1 ? `Groups of ${clusterName(v)}` : "";
    y += title ? 24 : 0;
    const head = h("text", { x: narrow ? left : left - 10, y: y - 4, "text-anchor": narrow ? "start" : "end", class: "strong" }, title);
    return [head, own.map((values, k) => (first(v, k) === v ? line(values, k, v) : null))];
  };
  const parts = scores.map(part);
  const unit = 10 ** Math.floor(Math.log10(most)); // of the first digit, so that both ends differ from 0
  const end = most >= 0.2 ? Math.floor(most * 5) / 5 : Math.floor(most / unit) * unit;
  const digits = most >= 0.2 ? 1 : Math.min(6, 1 - Math.floor(Math.log10(most)));
  const tick = (value) => h("text", { x: X(value), y: y + 16, "text-anchor": "middle", class: "soft" }, signed(value, digits));
  return h("svg", { viewBox: `0 0 ${width} ${y + 24}`, class: "profile", role: "img", "aria-label": SCORES },
    h("line", { x1: X(0), x2: X(0), y1: 2, y2: y, class: "zero" }), parts, [-end, 0, end].map(tick));
}
