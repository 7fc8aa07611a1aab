// Charts: lines of points, drawn as SVG.

/** A chart with a button that saves it. */
function downloadable(what, svg) {
  return h("div", {}, svg, h("div", { class: "gets" }, svgButton(what, () => svg)));
}

/** Line chart of series of points {x, y, mark}, x whole numbers; marked points have a dot. */
function chart(label, series, xName, yName) {
  const [xs, ys] = ["x", "y"].map((axis) => series.flat().map((point) => point[axis]));
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  // As many digits as make the labels of both ends differ.
  const digits = [0, 1, 2, 3, 4, 5, 6].find((n) => (n > 0 || high - low >= 10) && low.toFixed(n) !== high.toFixed(n)) ?? 1;
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

/** Text truncated to a width. */
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(text.slice(0, length) + "…").width > width) length--;
  return text.slice(0, length) + "…";
}
