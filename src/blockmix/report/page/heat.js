// Heat: the importance of each term group for each topic, as a map with words.

/** Fraction of the color scale of an importance in percent: doubling and halving are equally far from 100. */
function warmth(percent) {
  return percent === null ? 0.5 : 0.5 + Math.log2(Math.max(percent, 1) / 100) / 4;
}

function shade(fraction) {
  return `rgb(${mixed(fraction).join(" ")})`;
}

/** Text that can be read on a color of the scale. */
function onShade(fraction) {
  const [r, g, b] = mixed(fraction);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14161a" : "#f4f2ed";
}

/** Groups in the order of the map: those of the first topics first, the background last. */
function groupOrder() {
  const all = report.groups.map((_, k) => k);
  return [...all.filter((k) => !report.groups[k].background), ...all.filter((k) => report.groups[k].background)];
}

function groupTitle(k) {
  return report.groups[k].background ? `Background: ${count(report.groups[k].terms.length, "term")}` : report.groups[k].name;
}

function heat(width) {
  const narrow = width < 560;
  const { topics, groups, importance } = report;
  const step = narrow ? 44 : 26;
  const left = narrow ? 0 : Math.round(Math.min(360, width * 0.4));
  const cellWidth = (width - left) / topics.length;
  const Y = (at) => 42 + at * step;
  const context = h("canvas").getContext("2d");
  context.font = `12px ${FONT}`;
  const words = (k) => (groups[k].background ? groupTitle(k) : groups[k].terms.join(", "));
  const head = (topic, g) => {
    const [x, rating] = [left + (g + 0.5) * cellWidth, topic.rating === null ? "" : `★ ${topic.rating.toFixed(2)}`];
    return [h("text", { x, y: 14, "text-anchor": "middle", class: "label strong" }, narrow ? String(g) : `Topic ${g}`),
      h("text", { x, y: 31, "text-anchor": "middle", class: "soft" },
        fitted(context, rating || count(topic.size, "document"), cellWidth - 4))];
  };
  const square = (k, at) => (_, g) => {
    const percent = importance[g][k];
    const [x, y] = [left + g * cellWidth, Y(at) + (narrow ? 18 : 0)];
    const color = groups[k].background ? ink("rule") : shade(warmth(percent));
    const text = groups[k].background ? ink("text") : onShade(warmth(percent));
    return h("g", {}, h("title", {}, `${groupTitle(k)}, topic ${g}: ${percent === null ? "no documents" : `${percent} %`}`),
      h("rect", { x: x + 1, y, width: cellWidth - 2, height: 24, rx: 3, fill: color }),
      h("text", { x: x + cellWidth / 2, y: y + 16, "text-anchor": "middle", fill: text },
        percent === null ? "–" : String(Math.round(percent))));
  };
  const line = (k, at) => {
    const room = narrow ? width - 4 : left - 14;
    const name = h("text", narrow ? { x: 2, y: Y(at) + 12, class: "label" }
      : { x: left - 10, y: Y(at) + 16, "text-anchor": "end", class: "label" }, fitted(context, words(k), room));
    return h("g", {}, name, topics.map(square(k, at)));
  };
  const height = Y(groups.length) + 4;
  return h("svg", { viewBox: `0 0 ${width} ${height}`, class: "heat", role: "img",
    "aria-label": "Importance of each term group for each topic in percent of the average" },
    topics.map(head), groupOrder().map(line));
}

function heatMap() {
  const box = responsive(heat);
  const { topics, groups, importance } = report;
  const heads = ["group", "terms", ...topics.map((_, g) => `topic ${g}`)];
  const lines = () => [heads, ...groupOrder().map((k) =>
    [groupTitle(k), groups[k].terms.length, ...importance.map((row) => row[k])])];
  section("importance", ["Topics and term groups", "Importance"],
    h("p", {}, "Mean weight of the group's terms in the documents of a topic, in percent of their mean in all documents. "
      + "Red: more than on average; blue: less."
      + (topics[0].rating === null ? "" : " ★ is the mean rating; topics are ordered by it, lowest first.")),
    box, h("div", { class: "gets" }, svgButton("importance", () => box.firstChild), csvButton("importance", lines)));
}
