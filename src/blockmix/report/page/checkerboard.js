// Checkerboard: the standardized data, rows sorted by component and columns by group; and the missing values.

const STRIP = 10; // pixels of a strip of a trait

class Checkerboard {
  constructor(board) {
    Object.assign(this, { board, pixels: decoded(board.pixels), viewport: new Viewport(), image: null });
    [this.columns, this.rows, this.p] = [board.starts.length - 1, board.rowStarts.length - 1, board.columns.length];
    this.reduced = this.columns < this.p;
    this.single = this.rows === board.total;
    // No line of pixels spans two components.
    this.bands = runs(board.rowComponents, [...Array(this.rows).keys()]);
    this.strips = TRAITS.map((trait) => traitLines(trait, board));
    this.sizes = report.families.map((labels) => groupsOf(labels).map((group) => group.length));
    redraws.add(() => (this.image = null));
    this.raster = new Raster({
      label: `Checkerboard of the standardized data: ${count(board.total, "row")} by cluster, `
        + `${count(this.p, "column")} by group. Arrow keys read the values, plus and minus zoom.`,
      viewport: this.viewport, gutter: 112 + STRIP * TRAITS.length, footer: this.p <= 60 ? 92 : 0, ratio: null,
      shape: () => [this.columns, this.rows],
      image: () => (this.image ??= this.paint()),
      overlay: (context, place) => this.groups(context, place),
      margin: (context, place) => this.components(context, place),
      below: (context, place) => this.names(context, place),
      describe: (u, v) => this.describe(u, v),
    });
    this.raster.canvas.classList.add("board");
    this.orderBy(0);
  }

  /** Columns in the group order of a component; averaged columns stay as they are. */
  orderBy(g) {
    const { leaves } = report.views[Math.min(g, report.views.length - 1)];
    this.by = g;
    this.order = this.reduced ? this.board.columns : arranged(report.labels[g], leaves);
    this.image = null;
    this.viewport.changed();
  }

  byte(line, at) {
    return this.pixels[line * this.columns + (this.reduced ? at : this.order[at])];
  }

  paint() {
    const { columns, rows } = this;
    const made = new ImageData(columns, rows);
    const [target, colors] = [new Uint32Array(made.data.buffer), lookup()];
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) target[i * columns + j] = colors[this.byte(i, j)];
    const canvas = h("canvas", { width: columns, height: rows });
    canvas.getContext("2d").putImageData(made, 0, 0);
    return canvas;
  }

  /** A strip above each component in the colors of its groups, and group borders where groups are contiguous. */
  groups(context, { X, Y }) {
    for (const { label: g, start, stop } of this.bands) {
      const [top, bottom] = [Y(start / this.rows), Y(stop / this.rows)];
      for (const run of runs(report.families[g], this.order)) {
        const [left, right] = [X(run.start / this.p), X(run.stop / this.p)];
        context.fillStyle = groupColor(run.label, this.sizes[g][run.label] === 1);
        context.fillRect(left, top, right - left, 6);
        // Frames of single or narrow columns would hide what they frame.
        if ((g !== this.by && groupsDiffer()) || this.reduced || run.stop - run.start < 2 || right - left < 6) continue;
        context.strokeStyle = ink("frame");
        context.lineWidth = 1;
        context.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 2);
      }
      context.fillStyle = ink("ground");
      context.fillRect(X(0), bottom - 1, X(1) - X(0), 2);
    }
  }

  components(context, { margin, height, Y, zoom }) {
    const wide = STRIP * this.strips.length;
    this.strips.forEach((codes, t) => {
      const left = margin - wide - 2 + t * STRIP;
      for (let i = 0; i < this.rows; i++) {
        context.fillStyle = traitColor(TRAITS[t], codes[i]);
        context.fillRect(left, Y(i / this.rows), STRIP - 2, Math.max(1, (height * zoom) / this.rows + 0.3));
      }
    });
    margin -= wide + 2;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const { label: g, start, stop } of this.bands) {
      const [top, bottom] = [Math.max(0, Y(start / this.rows)), Math.min(height, Y(stop / this.rows))];
      if (bottom - top < 14) continue;
      const [middle, roomy] = [(top + bottom) / 2, bottom - top > 32];
      context.fillStyle = ink("text");
      context.font = `600 12px ${FONT}`;
      context.fillText(fitted(context, clusterName(g), margin - 12), margin - 10, middle - (roomy ? 8 : 0));
      context.fillStyle = ink("soft");
      context.font = `12px ${FONT}`;
      if (roomy) context.fillText(count(report.summaries[g].rows, "row"), margin - 10, middle + 9);
    }
  }

  names(context, { X, height, margin, width }) {
    context.fillStyle = ink("text");
    context.font = `12px ${FONT}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    this.order.forEach((column, at) => {
      const x = X((at + 0.5) / this.p);
      if (x < margin || x > margin + width) return;
      context.save();
      context.translate(x, height + 7);
      context.rotate(-Math.PI / 4);
      context.fillText(fitted(context, columnName(column), 112), 0, 0);
      context.restore();
    });
  }

  describe(u, v) {
    const { board, order } = this;
    const [i, j] = [Math.floor(v * this.rows), Math.floor(u * this.columns)];
    const g = board.rowComponents[i];
    const members = order.slice(board.starts[j], board.starts[j + 1]);
    const averaged = count(board.rowStarts[i + 1] - board.rowStarts[i], "row");
    const source = this.single ? `row ${rowName(board.order[i])}` : `mean of ${averaged}`;
    const value = ((this.byte(i, j) - 127) / 127) * board.limit;
    const deviations = this.byte(i, j) === 255 ? "missing" : `${signed(value)} standard deviations`;
    const known = this.strips.map((codes, t) => `${TRAITS[t].name}: ${traitText(TRAITS[t], codes[i])}`);
    return [columnsName(members, report.labels[g], report.families[g]), `${source} · ${clusterName(g)}`, deviations, ...known];
  }
}

function checkerboard(board) {
  const made = new Checkerboard(board);
  const choices = report.labels.map((_, g) => calledCluster(g, "option"));
  const choosable = report.views.length > 1 && !made.reduced;
  const line = count(Math.round(board.rowStarts.at(-1) / made.rows), "row");
  const texts = [
    "The standardized data, rows sorted by cluster and columns by group. The strip above each cluster shows "
      + "the colors of its groups.",
    made.single ? "" : `Each line of pixels is the mean of ${board.rowStarts.at(-1) < 2 * made.rows ? "one or two rows" : `about ${line}`}.`,
    report.gaps ? "Missing cells are gray." : "",
    board.sampled < board.total ? `Drawn from ${thousands(board.sampled)} of ${count(board.total, "row")}.` : "",
  ];
  section("checkerboard", "Checkerboard", h("p", {}, texts.filter(Boolean).join(" ")),
    choosable ? choice("board-order", "Columns in the order of", choices, (g) => made.orderBy(g)) : null,
    h("figure", {}, made.raster.canvas),
    TRAITS.length ? h("div", { class: "keys" }, TRAITS.map((trait) =>
      h("p", { class: "legend" }, h("b", {}, `${trait.name}:`), traitKey(trait)))) : null,
    h("div", { class: "under" }, scale(board.limit.toFixed(1), "standard deviations"),
      zoomButtons(made.viewport, "the checkerboard"),
      pngButton("checkerboard", made.raster.canvas, () => made.raster.draw())));
}

/** Share of missing cells of each column that has any, in all rows and by component. */
function missingValues(found) {
  const order = found.columns.map((_, k) => k).sort((a, b) => found.all[b] - found.all[a]);
  const each = (k) => (report.isMixture ? found.each.map((shares) => share(shares[k])) : []);
  const make = (query) => order.filter((k) => columnName(found.columns[k]).toLowerCase().includes(query))
    .map((k) => () => row([columnName(found.columns[k]), share(found.all[k]), ...each(k)]));
  const heads = ["Column", "All rows", ...(report.isMixture ? found.each.map((_, g) => calledCluster(g)) : [])];
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const clusters = report.isMixture ? ` By cluster: ${found.components.map(percent).join(", ")}.` : "";
  section("missing", "Missing values",
    h("p", {}, `${count(found.cells, "cell")} missing, ${percent(found.share)} of all; `
      + `${count(found.complete, "row")} without missing values.${clusters} Columns with missing values:`),
    searchable("missing-table", "column", heads, make));
}
