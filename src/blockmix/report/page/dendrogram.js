// Dendrogram of the columns, in the colors of the groups, with the line of the cut.

class Dendrogram {
  /**
   * view: a component of the report; viewport and gutter as of its maps; state() → { labels, order, K or null,
   * colorOf }; choose(K) is called when the tree is clicked at the height of a cut.
   */
  constructor(view, viewport, gutter, state, choose) {
    Object.assign(this, { view, viewport, gutter, state });
    this.top = Math.max(1e-9, ...view.heights) * 1.04;
    const label = `Dendrogram of ${count(view.leaves.length, "column")}; the slider cuts it`;
    this.canvas = h("canvas", { class: "tree", role: "img", "aria-label": label });
    this.canvas.addEventListener("click", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const height = (1 - (event.clientY - box.top - 4) / (box.height - 8)) * this.top;
      choose(view.heights.filter((value) => value > height).length + 1);
    });
    viewport.listeners.push(() => this.draw());
    redraws.add(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  draw() {
    const box = this.canvas.getBoundingClientRect();
    if (box.width < 2) return;
    const sharp = sharpness();
    [this.canvas.width, this.canvas.height] = [Math.round(box.width * sharp), Math.round(box.height * sharp)];
    const context = this.canvas.getContext("2d");
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    const margin = Math.round(Math.min(this.gutter, box.width * 0.3));
    const width = box.width - margin;
    const X = (at) => margin + (at / this.view.leaves.length - this.viewport.x) * this.viewport.zoom * width;
    const Y = (height) => 4 + (1 - height / this.top) * (box.height - 8);
    this.axis(context, margin, Y);
    context.beginPath();
    context.rect(margin, 0, width, box.height);
    context.clip();
    this.branches(context, X, Y);
    this.line(context, margin, width, Y);
  }

  axis(context, margin, Y) {
    context.font = `11px ${FONT}`;
    context.fillStyle = ink("soft");
    context.textAlign = "right";
    context.textBaseline = "middle";
    const step = [0.1, 0.2, 0.25, 0.5, 1, 2, 5].find((value) => this.top / value <= 5) ?? this.top;
    for (let value = 0; value <= this.top; value += step) {
      context.fillText(String(+value.toFixed(2)), margin - 10, Math.max(8, Y(value) - (value ? 0 : 4)));
    }
    context.save();
    context.translate(margin - 46, (Y(0) + Y(this.top)) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText("distance", 0, 0);
    context.restore();
  }

  branches(context, X, Y) {
    const { merges, heights } = this.view;
    const { labels, order, colorOf } = this.state();
    const p = order.length;
    const [at, group] = [new Float64Array(2 * p - 1), new Int32Array(2 * p - 1)];
    order.forEach((column, place) => ([at[column], group[column]] = [place + 0.5, labels[column]]));
    context.lineWidth = p > 400 ? 0.8 : 1.3;
    for (let k = 0; k < p - 1; k++) {
      const [a, b] = [merges[2 * k], merges[2 * k + 1]];
      at[p + k] = (at[a] + at[b]) / 2;
      group[p + k] = group[a] === group[b] ? group[a] : -1;
      const low = (node) => Y(node < p ? 0 : heights[node - p]);
      context.strokeStyle = group[p + k] < 0 ? ink("faint") : colorOf(group[p + k]);
      context.beginPath();
      context.moveTo(X(at[a]), low(a));
      context.lineTo(X(at[a]), Y(heights[k]));
      context.lineTo(X(at[b]), Y(heights[k]));
      context.lineTo(X(at[b]), low(b));
      context.stroke();
    }
  }

  /** The cut, halfway between the last merge below it and the first above. */
  line(context, margin, width, Y) {
    const { K } = this.state();
    const { heights } = this.view;
    if (K === null) return;
    const [below, above] = [heights[heights.length - K] ?? 0, heights[heights.length - K + 1] ?? this.top];
    context.setLineDash([5, 4]);
    context.lineWidth = 1.5;
    context.strokeStyle = ink("accent");
    context.beginPath();
    context.moveTo(margin, Y((below + above) / 2));
    context.lineTo(margin + width, Y((below + above) / 2));
    context.stroke();
    context.setLineDash([]);
  }
}
