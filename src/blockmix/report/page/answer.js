// Answer: the first screen. How many clusters, what marks each, which columns go together, how far to trust it.

const SHOWN_GROUPS = 6;
const SHOWN_NAMES = 9; // of each
const VERDICTS = { firm: "stays together in resamples of the rows", open: "some columns come and go", chance: "not found again" };

function answerSection() {
  const { head, marks, columns, groups, alone, trust } = report.answer;
  const clusters = marks.map((text, g) => h("li", {}, mark(g), renamable(`cluster ${g + 1}`), " ",
    h("span", { class: "size" }, count(report.summaries[g].rows ?? 0, "row")), h("span", { class: "marks" }, text.replaceAll("–", "\u2060–\u2060"))));
  const line = (group) => {
    const some = group.clusters.length < report.summaries.length && report.isMixture;
    const where = some ? [" of ", group.clusters.flatMap((g, i) => [i ? ", " : "", calledCluster(g)])] : [];
    return h("li", {}, dot(groupColor(group.number, false)), renamable(`group ${group.number + 1}`), where, " ",
      h("span", { class: "size" }, count(group.columns.length, "column")), verdict(group.verdict),
      h("span", { class: "listed" }, names(group.listed, SHOWN_NAMES).shown), group.words ? h("small", { class: "words" }, group.words) : null);
  };
  const rest = groups.slice(SHOWN_GROUPS);
  const more = rest.length ? h("button", { type: "button", class: "more", onclick: () => {
    list.append(...rest.map(line));
    more.remove();
  } }, `and ${count(rest.length, "more group")}`) : null;
  const list = h("ul", { class: "lines", id: "answer-groups" }, groups.slice(0, SHOWN_GROUPS).map(line));
  const single = alone.length ? h("p", { class: "hint alone" }, dot(ink("faint")), "Alone: ", names(alone, SHOWN_NAMES).shown) : null;
  const says = h("div", { class: "says" },
    h("p", { class: "head" }, head), clusters.length ? h("ul", { class: "lines", id: "answer-clusters" }, clusters) : null,
    h("p", { class: "trust" }, trust.join(" ")), h("p", { class: "head second" }, columns), list, more, single, keepNames());
  const made = h("section", { id: "answer", "aria-label": "Answer" },
    h("div", { class: "first" }, says, h("div", { class: "pictures" }, pictures())), notes());
  document.getElementById("main").append(made);
}

function verdict(word) {
  return word ? h("span", { class: `verdict ${word}`, title: VERDICTS[word] }, word) : null;
}

function notes() {
  // The sentence on trust says that already.
  const told = report.warnings.filter((text) => !text.startsWith("X has more columns than rows"));
  if (!told.length) return null;
  const heading = h("p", {}, h("b", {}, "What to know first"));
  return h("div", { class: "warn", role: "note" }, heading, h("ul", {}, told.map((text) => h("li", {}, text))));
}

/** Small pictures, each a link to its section. */
function pictures() {
  const figure = (target, text, picture) => h("a", { class: "picture", href: `#${target}` }, picture, h("small", {}, text));
  const found = [];
  if (report.isMixture && report.map && report.summaries.length > 1) found.push(figure("map", "The rows, in the colors of their clusters", miniMap(report.map)));
  if (report.differences) {
    const shown = groupsDiffer() || !report.differences.groups[0].length ? marking() : scored();
    found.push(figure("apart", `Means of ${groupsDiffer() ? "columns that mark a cluster" : "the clusters"}: blue is low, red is high`, miniProfile(shown)));
  }
  if (found.length < 2 && report.hasRows) {
    found.push(figure("component-0", "Which columns vary together: red is positive, blue negative", miniCorrelation(report.views[0])));
  }
  return found;
}

/** A small canvas that is painted in its own size, again when the theme changes. */
function small(ratio, paint) {
  const canvas = h("canvas", { class: "mini", "aria-hidden": "true" });
  const draw = () => {
    const width = canvas.clientWidth;
    if (!width) return;
    const sharp = sharpness();
    [canvas.width, canvas.height] = [width * sharp, width * ratio * sharp].map(Math.round);
    const context = canvas.getContext("2d");
    context.scale(sharp, sharp);
    paint(context, width, width * ratio);
  };
  redraws.add(draw);
  new ResizeObserver(draw).observe(canvas);
  return canvas;
}

function miniMap(map) {
  const [x, y] = [map.x, map.y].map(decodedFractions);
  const step = Math.max(1, Math.floor(x.length / 3000));
  return small(0.62, (context, width, height) => {
    context.globalAlpha = 0.75;
    for (let i = 0; i < x.length; i += step) {
      context.fillStyle = componentColor(map.components[i]);
      const [left, top] = [4 + x[i] * (width - 8), 4 + (1 - y[i]) * (height - 8)];
      context.fill(new Path2D(shapePath(map.components[i], left, top, x.length > 1500 ? 1.6 : 2.6)));
    }
  });
}

/** Groups with a score in every cluster: number, name and mean scores; a group that several clusters have is one. */
function profiled() {
  const seen = new Set();
  return report.differences.groups.flatMap((own, v) => own.map((scores, k) => {
    const columns = groupsOf(report.views[v].labels)[k];
    const key = columns.join();
    if (seen.has(key)) return null;
    seen.add(key);
    return { v, k, columns, scores, number: report.families[v][columns[0]] };
  }).filter(Boolean));
}

/** Name and means of the groups in which the clusters differ most. */
function scored() {
  const size = ({ scores }) => Math.max(...scores.map(Math.abs));
  const best = profiled().sort((a, b) => size(b) - size(a)).slice(0, 9);
  return best.sort((a, b) => a.number - b.number).map(({ number, scores }) => ({ name: () => groupName(number), scores }));
}

/** Name and means of the columns that mark the clusters, those of each cluster in turn. */
function marking() {
  const { marks, columns } = report.differences;
  const [chosen, each] = [new Set(), Math.max(2, Math.floor(9 / marks.length))];
  for (const parts of marks) [0, 1, 2].flatMap((k) => parts.map((part) => part[k])).filter((column) => column !== undefined).slice(0, each).forEach((column) => chosen.add(column));
  return [...chosen].slice(0, 12).map((column) => ({ name: () => columnName(column), scores: columns.map((own) => own[column]) }));
}

function miniProfile(shown) {
  const G = report.summaries.length;
  const most = Math.max(...shown.flatMap(({ scores }) => scores.map(Math.abs)), 1e-9);
  return responsive((width) => {
    const [left, top, cell] = [Math.min(150, width * 0.42), 20, 20];
    const wide = (width - left) / G;
    const context = h("canvas").getContext("2d");
    context.font = `12px ${FONT}`;
    const X = (g) => left + (g + 0.5) * wide - 1;
    const heads = report.summaries.map((_, g) => (wide > 64
      ? h("text", { x: X(g), y: 13, "text-anchor": "middle" }, fitted(context, clusterName(g), wide - 4))
      : h("path", { d: shapePath(g, X(g), 9, 5), fill: componentColor(g) })));
    const rows = shown.map(({ name, scores }, i) => [
      h("text", { x: left - 8, y: top + i * cell + 14, "text-anchor": "end" }, fitted(context, name(), left - 10)),
      scores.map((score, g) => h("rect", { x: left + g * wide, y: top + i * cell, width: Math.max(1, wide - 2), height: cell - 2,
        fill: `rgb(${mixed(0.5 + score / most / 2).join()})` }))]);
    return h("svg", { viewBox: `0 0 ${width} ${top + shown.length * cell}`, class: "heat mini", role: "img", "aria-label": "Means of the clusters" }, heads, rows);
  });
}

/** The observed correlations of the first cluster, in the order of its groups. */
function miniCorrelation(view) {
  const [m, pixels] = [view.starts.length - 1, decoded(view.pixels)];
  return small(1, (context, width, height) => {
    const image = new ImageData(m, m);
    const [target, colors] = [new Uint32Array(image.data.buffer), lookup()];
    const places = m < view.leaves.length ? [...Array(m).keys()] : arranged(view.labels, view.leaves).map((column) => inverse(view.leaves)[column]);
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < m; j++) {
        const [a, b] = [Math.min(places[i], places[j]), Math.max(places[i], places[j])];
        target[i * m + j] = colors[view.observed ? pixels[a * (m + 1) + b + 1] : pixels[b * (m + 1) + a]];
      }
    }
    const made = h("canvas", { width: m, height: m });
    made.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = m > width;
    context.drawImage(made, 0, 0, width, height);
  });
}
