// Component: observed and estimated correlation, what common factors share and leave, columns together in resamples, the
// tree, the slider that cuts it, the resulting groups, and the loadings of the common factors.

const GUTTER = Math.round(28 + Math.min(112, 6.2 * Math.max(...report.columns.map((name) => name.length), 7)));

const NO_FEWER = "Fewer groups than fitted need the data: estimated correlations are zero between groups.";

const MAPS = { observed: "Observed", common: "What all columns share", remaining: "What remains", estimated: "Estimated", pairs: "Together in resamples" };

/** The name of the rows that a view is of. */
function viewName(index) {
  return report.views.length < report.summaries.length ? "All clusters" : clusterName(index);
}

const HOW_TO_ZOOM = "Click a map, then zoom with the wheel or + − 0. Arrow keys read values; drag to pan.";

const LOADINGS = "Bars are the correlations of the columns with it, in the colors of the groups.";

class ComponentPanel {
  constructor(view, index) {
    Object.assign(this, { view, index, id: `component-${index}`, viewport: new Viewport() });
    this.pixels = decoded(view.pixels);
    this.pairs = view.pairs && decoded(view.pairs);
    this.shared = view.shared && decoded(view.shared);
    const present = { ...view, estimated: true, common: view.shared, remaining: view.shared };
    this.kinds = Object.keys(MAPS).filter((kind) => present[kind]);
    this.p = view.leaves.length;
    this.cells = view.starts.length - 1;
    this.reduced = this.cells < this.p;
    this.leafPlace = inverse(view.leaves);
    this.images = {};
    redraws.add(() => (this.images = {}));
    this.fittedK = Math.max(...view.labels) + 1;
    this.element = this.build();
    this.showFitted();
    this.element.append(h("div", { class: "common" }, view.common.map((loadings, factor) => this.loadings(loadings, factor))));
  }

  /** The correlation of each column with a common factor, largest first, in the colors of the fitted groups. */
  loadings(values, factor) {
    const [title, colorOf] = [`Common factor ${factor + 1}`, this.state.colorOf];
    const order = values.map((_, column) => column).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
    const line = (column) => h("tr", {}, h("th", { scope: "row" }, named(columnName(column))),
      h("td", {}, signedBar(values[column], 1, colorOf(this.view.labels[column]))), h("td", { class: "figure" }, signed(values[column])));
    const body = h("tbody", {}, order.slice(0, LISTED).map(line));
    const rest = order.slice(LISTED);
    const unfold = () => {
      body.append(...rest.map(line));
      button.remove();
    };
    const button = h("button", { type: "button", class: "more", onclick: unfold }, `and ${count(rest.length, "more column")}`);
    const what = `${viewName(this.index)} ${title}`;
    return h("div", {}, h("table", { class: "bars" }, h("caption", {}, h("b", {}, title), ". ", LOADINGS),
      h("thead", { class: "unseen" }, h("tr", {}, ["Column", "Loading", ""].map((text) => h("th", { scope: "col" }, text)))), body),
    rest.length ? button : null,
    h("div", { class: "gets" }, csvButton(what, () => [["column", "loading"], ...order.map((column) => [columnName(column), values[column]])])));
  }

  build() {
    const { view, id } = this;
    this.rasters = this.kinds.map((kind) => this.raster(kind));
    this.tree = new Dendrogram(view, this.viewport, GUTTER, () => this.state, (K) => this.showCut(K));
    this.list = h("div", { class: "groups", id: `${id}-groups` });
    const picture = (title, { canvas }, draw, attributes = {}) => h("figure", attributes,
      h("figcaption", {}, title, " ", pngButton(`${viewName(this.index)} ${title}`, canvas, draw)), canvas);
    const map = (raster, i) => picture(MAPS[this.kinds[i]], raster, () => raster.draw());
    return h("section", { class: "component", id, "aria-labelledby": `${id}-heading` },
      h("h3", { id: `${id}-heading` },
        report.views.length < report.summaries.length ? "All clusters" : calledCluster(this.index), h("span", { class: "aside" }, this.aside())),
      h("div", { class: this.kinds.length > 2 ? "maps three" : "maps" },
        picture("Tree of the columns", this.tree, () => this.tree.draw(), { class: "tree-figure" }),
        this.controls(), this.rasters.map(map)),
      h("div", { class: "under" }, scale(1, this.pairs ? "correlation, or share of the resamples" : "correlation"), zoomButtons(this.viewport, viewName(this.index)),
        h("p", { class: "hint how" }, HOW_TO_ZOOM)),
      this.list);
  }

  aside() {
    const summary = report.views.length === report.summaries.length ? report.summaries[this.index] : null;
    const rows = summary && summary.rows !== null ? `${count(summary.rows, "row")}, ` : "";
    const sizes = groupsOf(this.view.labels).map((group) => group.length);
    const alone = sizes.filter((size) => size === 1).length;
    const groups = count(sizes.length - alone, "column group");
    return `${rows}${groups}${alone ? `, ${count(alone, "column")} alone` : ""}`;
  }

  controls() {
    const { view, id, p } = this;
    const bounds = { min: view.minGroups, max: p, step: 1 };
    const change = (event) => this.showCut(Number(event.target.value));
    const about = { "aria-describedby": `${id}-status`, "aria-controls": `${id}-groups` };
    const label = `Number of groups, ${viewName(this.index)}`;
    const back = () => {
      this.showFitted(true);
      this.slider.focus();
    };
    this.slider = h("input", { type: "range", id: `${id}-slider`, ...bounds, ...about, oninput: change });
    this.number = h("input", { type: "number", ...bounds, "aria-label": label, onchange: change });
    this.back = h("button", { type: "button", onclick: back }, "Back to the fitted groups");
    this.status = h("p", { class: "status", id: `${id}-status` });
    return h("div", { class: "controls" },
      h("label", { for: `${id}-slider` }, "Cut the tree into groups"),
      h("div", { class: "slider" }, this.slider, this.number),
      this.status, this.back, view.observed ? null : h("p", { class: "hint" }, NO_FEWER));
  }

  showFitted(spoken = false) {
    const { view, fittedK } = this;
    const text = `As fitted: ${count(fittedK, "group")}` + (view.isCut
      ? `, the same as this tree cut into ${fittedK}.`
      : ". The fit maximizes the likelihood; its groups are not a cut of this tree.");
    this.show(view.labels, view.isCut ? fittedK : null, fittedK, text, spoken);
    this.back.classList.add("gone");
  }

  showCut(K) {
    const { view, p, fittedK } = this;
    K = Math.min(p, Math.max(view.minGroups, Math.round(K) || 1));
    const labels = cut(view.merges, K);
    if (K === fittedK && labels.every((label, column) => label === view.labels[column])) return this.showFitted(true);
    const largest = Math.max(...groupsOf(labels).map((group) => group.length));
    const changed = moved(view.labels, labels);
    const text = `Tree cut into ${count(K, "group")}; the largest has ${count(largest, "column")}. `
      + `${count(changed, "column")} in a different group than fitted.`;
    this.show(labels, K, K, text, true);
    this.back.classList.remove("gone");
  }

  /** Show the groups of these labels in the maps, the tree and the list; K is null if they are not a cut. */
  show(labels, K, shownK, text, spoken) {
    const order = this.reduced ? this.view.leaves : arranged(labels, this.view.leaves);
    const sizes = groupsOf(labels).map((group) => group.length);
    const numbers = this.numbers(labels, order, sizes);
    const colorOf = (label) => groupColor(numbers.get(label), sizes[label] === 1);
    if (!this.state || this.state.order.some((column, at) => column !== order[at])) this.images = {};
    this.state = { labels, order, K, colorOf, sizes, runs: runs(labels, order) };
    this.slider.value = this.number.value = shownK;
    this.slider.setAttribute("aria-valuetext", count(shownK, "group"));
    this.status.textContent = text;
    this.element.dataset.groups = shownK;
    if (spoken) announce(`${viewName(this.index)}: ${text}`);
    this.list.replaceChildren(...groupList(labels, colorOf, labels === this.view.labels ? this.index : null));
    this.viewport.changed();
  }

  /** Color number of each group: the same as in other components if there are enough colors. */
  numbers(labels, order, sizes) {
    const families = report.families[Math.min(this.index, report.families.length - 1)];
    const enough = families.every((family, column) => family < GROUP_COLORS.length || sizes[labels[column]] === 1);
    if (labels === this.view.labels && enough) return new Map(labels.map((label, column) => [label, families[column]]));
    const shown = [...new Set(order.map((column) => labels[column]))].filter((label) => sizes[label] > 1);
    return new Map(shown.map((label, at) => [label, at]));
  }

  raster(kind) {
    const { view, p } = this;
    const names = p <= 40 ? ` Columns: ${view.leaves.map(columnName).join(", ")}.` : "";
    return new Raster({
      label: `${MAPS[kind]}${kind === "observed" || kind === "estimated" ? " correlation" : ""} of ${count(p, "column")}, ${viewName(this.index)}. `
        + `Arrow keys read the values, plus and minus zoom.${names}`,
      viewport: this.viewport, gutter: GUTTER, footer: 0, ratio: 1,
      shape: () => [this.cells, this.cells],
      image: () => (this.images[kind] ??= this.paint(kind)),
      overlay: (context, place) => this.frames(context, place),
      margin: (context, place) => this.names(context, place),
      describe: (u, v) => this.describe(u, v),
    });
  }

  /** The byte of a pair of cells: of two maps one is right of the step diagonal, one left of it; pairs are a triangle. */
  byte(kind, a, b) {
    const [i, j] = a < b ? [a, b] : [b, a];
    if (kind === "pairs") return this.pairs[(j * (j + 1)) / 2 + i];
    const maps = kind === "common" || kind === "remaining" ? this.shared : this.pixels;
    return maps[kind === "observed" || kind === "remaining" ? i * (this.cells + 1) + j + 1 : j * (this.cells + 1) + i];
  }

  paint(kind) {
    const m = this.cells;
    const places = this.reduced ? [...Array(m).keys()] : this.state.order.map((column) => this.leafPlace[column]);
    const image = new ImageData(m, m);
    const [target, colors] = [new Uint32Array(image.data.buffer), lookup()];
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < m; j++) target[i * m + j] = colors[this.byte(kind, places[i], places[j])];
    }
    const canvas = h("canvas", { width: m, height: m });
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  /** Frames around the groups that are large enough not to be hidden by them. */
  frames(context, { X, Y, width, zoom }) {
    const { p } = this;
    context.strokeStyle = ink("frame");
    for (const { start, stop } of this.state.runs) {
      const side = ((stop - start) / p) * width * zoom;
      if (side < 6 || stop - start < 2) continue;
      context.lineWidth = side > 12 ? 1.6 : 1;
      context.globalAlpha = side > 16 ? 1 : 0.45;
      context.strokeRect(X(start / p), Y(start / p), side, Y(stop / p) - Y(start / p));
    }
    context.globalAlpha = 1;
  }

  /** Column names if they fit, else group sizes; and a strip in the groups' colors. */
  names(context, { margin, height, Y, zoom }) {
    const { p } = this;
    const { runs, order, colorOf, sizes } = this.state;
    const cell = (height * zoom) / p;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.font = `${Math.min(12, Math.max(9, cell * 0.8))}px ${FONT}`;
    const write = (text, y) => context.fillText(fitted(context, text, margin - 14), margin - 11, y);
    for (const { label, start, stop } of runs) {
      const [top, bottom] = [Y(start / p), Y(stop / p)];
      if (bottom < 0 || top > height) continue;
      context.fillStyle = colorOf(label);
      context.fillRect(margin - 7, top, 5, Math.max(1, bottom - top - (bottom - top > 4 ? 1 : 0)));
      context.fillStyle = ink("soft");
      if (cell >= 8.5) {
        context.fillStyle = ink("text");
        for (let at = start; at < stop; at++) write(columnName(order[at]), Y((at + 0.5) / p));
      } else if (bottom - top >= 13) {
        write(count(sizes[label], "column"), Math.min(height - 7, Math.max(7, (top + bottom) / 2)));
      }
    }
  }

  describe(u, v) {
    const [a, b] = [v, u].map((fraction) => Math.floor(fraction * this.cells));
    const { labels, order } = this.state;
    const { starts } = this.view;
    const families = labels === this.view.labels ? report.families[this.index] : null;
    const columns = [a, b].map((cell) => columnsName(order.slice(starts[cell], starts[cell + 1]), labels, families));
    const places = [a, b].map((cell) => (this.reduced ? cell : this.leafPlace[order[cell]]));
    const value = (kind) => (this.byte(kind, ...places) - 127) / 127;
    const words = (kind) => (kind === "pairs"
      ? `together in ${Math.round(100 * value(kind))} % of the resamples` : `${kind === "common" ? "shared" : kind} ${signed(value(kind))}`);
    return [...columns, ...this.kinds.map((kind) => `${this.reduced ? "mean " : ""}${words(kind)}`)];
  }
}

/** Number of columns that change group between two partitions, with groups matched greedily. */
function moved(before, after) {
  const overlap = new Map();
  before.forEach((a, column) => {
    const pair = `${a} ${after[column]}`;
    overlap.set(pair, (overlap.get(pair) ?? 0) + 1);
  });
  const [left, right] = [new Set(), new Set()];
  let kept = 0;
  for (const [pair, shared] of [...overlap].sort((x, y) => y[1] - x[1])) {
    const [a, b] = pair.split(" ");
    if (left.has(a) || right.has(b)) continue;
    left.add(a);
    right.add(b);
    kept += shared;
  }
  return before.length - kept;
}
