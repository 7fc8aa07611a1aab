// Scatter: the rows on two axes, in the colors of their clusters or of a trait.

const FAR_PIXELS = 14; // the pointer finds a row within this distance

class Scatter extends Raster {
  constructor(map) {
    super({
      label: "Map of the rows. Arrow keys go from row to row, plus and minus zoom.",
      viewport: new Viewport(), gutter: 34, footer: 30, ratio: null, shape: () => [1, 1],
      overlay: (context, place) => this.points(context, place),
      margin: (context, place) => this.upright(context, place),
      below: (context, place) => this.across(context, place),
      describe: (u, v) => this.describeNearest(u, v),
    });
    const [x, y] = [map.x, map.y].map(decodedFractions);
    const certainty = report.rows?.certainty;
    Object.assign(this, { map, x, y: y.map((value) => 1 - value), trait: null, at: null });
    this.sure = certainty ? decodedFractions(certainty.own) : null;
    this.ordered = x.map((_, i) => i).sort((a, b) => x[a] - x[b]);
    this.canvas.classList.add("scatter");
  }

  /** Color of a point; its shape is always that of its cluster. */
  color(i) {
    return this.trait ? traitColor(this.trait, this.trait.bytes[i]) : componentColor(this.map.components[i]);
  }

  colorBy(trait) {
    this.trait = trait;
    this.draw();
  }

  /** Screen position of a point, with room for its shape at the edges. */
  place() {
    const made = super.place();
    const [X, Y] = [made.X, made.Y];
    return { ...made, left: (i) => X(0.02 + 0.96 * this.x[i]), top: (i) => Y(0.02 + 0.96 * this.y[i]) };
  }

  points(context, { left, top, margin, width, height }) {
    context.strokeStyle = ink("rule");
    context.strokeRect(margin + 0.5, 0.5, width - 1, height - 1);
    const r = this.x.length > 3000 ? 2.4 : this.x.length > 600 ? 3.2 : 4.6;
    context.lineWidth = 1.2;
    for (let i = 0; i < this.x.length; i++) {
      const shape = new Path2D(shapePath(this.map.components[i], left(i), top(i), r));
      context.strokeStyle = context.fillStyle = this.color(i);
      context.globalAlpha = 0.85;
      if (this.sure === null || this.sure[i] >= 0.9) context.fill(shape);
      context.stroke(shape);
    }
    context.globalAlpha = 1;
  }

  crosshair(context, { left, top }) {
    if (this.at === null || printing || exporting) return;
    context.strokeStyle = ink("text");
    context.lineWidth = 2;
    context.beginPath();
    context.arc(left(this.at), top(this.at), 9, 0, 2 * Math.PI);
    context.stroke();
  }

  describeNearest(u, v) {
    const { X, Y, left, top } = this.place();
    let [best, distance] = [null, FAR_PIXELS];
    for (let i = 0; i < this.x.length; i++) {
      const away = Math.hypot(left(i) - X(u), top(i) - Y(v));
      if (away < distance) [best, distance] = [i, away];
    }
    return this.select(best);
  }

  /** Mark a row; returns its description. */
  select(i) {
    this.at = i;
    this.draw();
    if (i === null) return null;
    const row = this.map.rows ? this.map.rows[i] : i;
    const lines = [`row ${rowName(row)}`, report.isMixture ? clusterName(this.map.components[i]) : ""];
    if (this.sure && !this.map.rows) lines[1] += `, probability ${this.sure[i].toFixed(3)}`;
    for (const trait of TRAITS) lines.push(`${trait.name}: ${traitText(trait, trait.bytes[i])}`);
    return lines.filter(Boolean);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return super.key(event);
    const n = this.ordered.length;
    const lines = this.select(this.ordered[(this.ordered.indexOf(this.at) + step + n) % n]);
    const { box, left, top } = this.place();
    showTip(lines, box.left + left(this.at), box.top + top(this.at));
    announce(lines.join(", "));
    event.preventDefault();
  }

  across(context, { margin, width, height }) {
    context.fillStyle = ink("soft");
    context.font = `12px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "top";
    context.fillText(fitted(context, this.map.names[0], width), margin + width / 2, height + 10);
  }

  upright(context, { height }) {
    context.save();
    context.translate(16, height / 2);
    context.rotate(-Math.PI / 2);
    context.fillStyle = ink("soft");
    context.font = `12px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(fitted(context, this.map.names[1], height), 0, 0);
    context.restore();
  }
}

function rowMap(map) {
  const made = new Scatter(map);
  const key = h("p", { class: "legend" });
  const choose = (at) => {
    made.colorBy(at ? TRAITS[at - 1] : null);
    key.replaceChildren(...(at ? traitKey(made.trait) : report.summaries.map((_, g) => h("span", {}, mark(g), calledCluster(g)))));
  };
  choose(0);
  const texts = [
    "Each row is a point.",
    map.names[0].startsWith("discriminant") ? "Discriminant axes are the directions in which the clusters differ most "
      + "in comparison with the variation within them." : "Principal axes are the directions of largest variance.",
    made.sure ? "Hollow: probability of the cluster below 0.9." : "",
    map.beyond ? `Rows beyond the frame, drawn at its edge: ${thousands(map.beyond)}.` : "",
    map.rows ? `Drawn from ${thousands(map.rows.length)} rows.` : "",
  ];
  section("map", ["Map of the rows", "Map"], h("p", {}, texts.filter(Boolean).join(" ")),
    TRAITS.length ? choice("map-colors", "Colors show", ["clusters", ...TRAITS.map(({ name }) => name)], choose) : null,
    h("figure", {}, made.canvas),
    h("div", { class: "under" }, report.isMixture || TRAITS.length ? key : null,
      zoomButtons(made.viewport, "the map"), pngButton("map of the rows", made.canvas, () => made.draw())));
}
