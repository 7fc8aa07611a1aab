// Checkerboard: the standardized data, rows by component and columns by group.

function checkerboard(board) {
  const pixels = decoded(board.pixels);
  const [columns, rows] = [board.starts.length - 1, board.rowStarts.length - 1];
  const p = board.columns.length;
  const total = board.rowStarts[rows];
  const reduced = columns < p;
  const lens = new Lens();
  const bands = runs(board.rowComponents, [...Array(rows).keys()]).map((run) => ({ ...run, g: run.label }));
  let [image, by, order] = [null, 0, board.columns];

  const orderBy = (g) => {
    by = g;
    order = reduced ? board.columns : arranged(report.labels[g], report.views[Math.min(g, report.views.length - 1)].leaves);
    image = null;
    lens.changed();
  };
  const paint = () => {
    const made = new ImageData(columns, rows);
    const [target, colors] = [new Uint32Array(made.data.buffer), lookup()];
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) target[i * columns + j] = colors[pixels[i * columns + (reduced ? j : order[j])]];
    const canvas = h("canvas", { width: columns, height: rows });
    canvas.getContext("2d").putImageData(made, 0, 0);
    return canvas;
  };
  // Pixels are even, so the border of a component is a border of pixels.
  const overlay = (context, { X, Y }) => {
    for (const { g, start, stop } of bands) {
      const [top, bottom] = [Y(start / rows), Y(stop / rows)];
      for (const run of runs(report.families[g], order)) {
        context.fillStyle = groupColor(run.label, alone[g][order[run.start]]);
        context.fillRect(X(run.start / p), top, X(run.stop / p) - X(run.start / p), 6);
        if (g !== by || reduced) continue;
        context.fillStyle = ink("frame");
        context.fillRect(X(run.stop / p) - 0.5, top, 1, bottom - top);
      }
      context.fillStyle = ink("ground");
      context.fillRect(X(0), bottom - 1, X(1) - X(0), 2);
    }
  };
  const margin = (context, place) => {
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const { g, start, stop } of bands) {
      const [top, bottom] = [Math.max(0, place.Y(start / rows)), Math.min(place.height, place.Y(stop / rows))];
      if (bottom - top < 14) continue;
      context.fillStyle = ink("text");
      context.font = `600 12px ${FONT}`;
      context.fillText(report.isMixture ? `Component ${g}` : "All rows", place.margin - 10, (top + bottom) / 2 - (bottom - top > 32 ? 8 : 0));
      context.fillStyle = ink("soft");
      context.font = `12px ${FONT}`;
      const n = report.summaries[g].rows;
      if (bottom - top > 32) context.fillText(count(n, "row"), place.margin - 10, (top + bottom) / 2 + 9);
    }
  };
  const below = (context, { X, height, margin, width }) => {
    context.fillStyle = ink("text");
    context.font = `12px ${FONT}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    order.forEach((column, at) => {
      const x = X((at + 0.5) / p);
      if (x < margin || x > margin + width) return;
      context.save();
      context.translate(x, height + 7);
      context.rotate(-Math.PI / 4);
      context.fillText(fitted(context, columnName(column), 112), 0, 0);
      context.restore();
    });
  };
  const describe = (u, v) => {
    const [i, j] = [Math.floor(v * rows), Math.floor(u * columns)];
    const members = order.slice(board.starts[j], board.starts[j + 1]);
    const g = board.rowComponents[i];
    const n = board.rowStarts[i + 1] - board.rowStarts[i];
    const who = board.rows ? `row ${rowName(board.rows[i])}` : `mean of ${count(n, "row")}`;
    const column = members.length === 1 ? `${columnName(members[0])} · group ${report.labels[g][members[0]]}` : `${columnName(members[0])} … ${columnName(members.at(-1))} (mean of ${members.length})`;
    const value = ((pixels[i * columns + (reduced ? j : order[j])] - 127) / 127) * board.limit;
    return [column, `${who} · component ${g}`, `${signed(value)} standard deviations`];
  };
  const alone = report.labels.map((labels) => {
    const sizes = groupsOf(labels).map((group) => group.length);
    return labels.map((label) => sizes[label] === 1);
  });
  orderBy(0);
  redraws.add(() => (image = null));
  const raster = new Raster({
    label: `Checkerboard of the standardized data: ${count(board.total, "row")} by component, ${count(p, "column")} by group. Arrow keys read the values, plus and minus zoom.`,
    lens, gutter: 112, footer: p <= 60 ? 92 : 0, below, ratio: null, shape: () => [columns, rows], image: () => (image ??= paint()), overlay, margin, describe,
  });
  raster.canvas.classList.add("board");
  const choices = report.labels.map((_, g) => h("option", { value: g }, `component ${g}`));
  const chooser = report.labels.length > 1 && !reduced
    ? h("label", { class: "choose" }, "Columns in the order of ", h("select", { id: "board-order", onchange: (event) => orderBy(Number(event.target.value)) }, choices))
    : null;
  const averaged = board.rows ? "" : ` A line of pixels is the mean of about ${count(Math.round(total / rows), "row")}.`;
  const sampled = board.sampled < board.total ? ` Drawn from ${thousands(board.sampled)} of ${thousands(board.total)} rows.` : "";
  section("checkerboard", "Checkerboard",
    h("p", {}, `Every row and column of the data, each column less its mean and divided by its deviation. Rows stand by component, columns by group; the strip above a component has the colors of its own groups.${averaged}${sampled}`),
    chooser, h("figure", { class: "board-figure" }, raster.canvas),
    h("div", { class: "under" }, scale(board.limit.toFixed(1), "standard deviations"), zoomButtons(lens, "the checkerboard")));
}
