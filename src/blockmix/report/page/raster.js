// Raster: a matrix of pixels on a canvas, with zoom, a cursor and names on its left.

/** The visible part of a picture and its cursor, in fractions of the picture; linked pictures share one. */
class Viewport {
  constructor() {
    Object.assign(this, { x: 0, y: 0, zoom: 1, cursor: null, listeners: [] });
  }

  changed() {
    this.listeners.forEach((listener) => listener());
  }

  /** Zoom around a fixed point. */
  scale(factor, u = this.x + 0.5 / this.zoom, v = this.y + 0.5 / this.zoom, most = 64) {
    const zoom = Math.min(most, Math.max(1, this.zoom * factor));
    this.move(u - ((u - this.x) * this.zoom) / zoom, v - ((v - this.y) * this.zoom) / zoom, zoom);
  }

  move(x, y, zoom = this.zoom) {
    const room = 1 - 1 / zoom;
    Object.assign(this, { zoom, x: Math.min(room, Math.max(0, x)), y: Math.min(room, Math.max(0, y)) });
    this.changed();
  }

  /** Pan as little as needed to show a point. */
  show(u, v) {
    const width = 1 / this.zoom;
    const near = (at, from) => Math.min(at, Math.max(from, at - width));
    this.move(near(u, this.x), near(v, this.y));
  }
}

class Raster {
  /**
   * Options: label for screen readers; viewport; gutter, the width on the left; footer, the height below;
   * ratio, height by width, or null for the height of the style sheet.
   * Callbacks: shape() → [columns, rows] of cells; image() → canvas of pixels, optional; overlay(context, place),
   * margin(context, place) and below(context, place) draw on, left of and below it; describe(u, v) → lines of text.
   */
  constructor(options) {
    Object.assign(this, options);
    const role = { role: "application", "aria-roledescription": "heat map", "aria-label": this.label };
    this.canvas = h("canvas", { class: "raster", tabindex: 0, ...role });
    this.viewport.listeners.push(() => this.draw());
    redraws.add(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.listen();
  }

  /** Current layout of the canvas, and conversions between screen positions and fractions. */
  place() {
    const box = this.canvas.getBoundingClientRect();
    const margin = Math.round(Math.min(this.gutter, box.width * 0.3));
    const width = Math.max(1, box.width - margin);
    const height = this.ratio === null ? Math.max(1, box.height - this.footer) : width * this.ratio;
    const { x, y, zoom } = this.viewport;
    return {
      box, margin, width, height, zoom,
      X: (u) => margin + (u - x) * zoom * width,
      Y: (v) => (v - y) * zoom * height,
      U: (screen) => x + (screen - margin) / width / zoom,
      V: (screen) => y + screen / height / zoom,
    };
  }

  draw() {
    const place = this.place();
    if (place.box.width < 2) return;
    const { margin, width, height, X, Y } = place;
    const sharp = sharpness();
    const size = [Math.round((margin + width) * sharp), Math.round((height + this.footer) * sharp)];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) [this.canvas.width, this.canvas.height] = size;
    const context = this.canvas.getContext("2d");
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    context.clearRect(0, 0, margin + width, height + this.footer);
    context.save();
    context.beginPath();
    context.rect(margin, 0, width, height);
    context.clip();
    const image = this.image?.();
    const zoom = this.viewport.zoom * sharp;
    context.imageSmoothingEnabled = false;
    if (image) context.drawImage(shrunk(image, width * zoom, height * zoom), X(0), Y(0), X(1) - X(0), Y(1) - Y(0));
    this.overlay(context, place);
    this.crosshair(context, place);
    context.restore();
    context.save();
    context.beginPath();
    context.rect(0, 0, margin, height);
    context.clip();
    this.margin(context, place);
    context.restore();
    if (this.footer) this.below(context, place);
  }

  crosshair(context, { X, Y, margin, width, height }) {
    const cursor = this.viewport.cursor;
    if (!cursor || printing || exporting) return;
    const [columns, rows] = this.shape();
    const [i, j] = [Math.floor(cursor.u * columns), Math.floor(cursor.v * rows)];
    context.fillStyle = ink("text");
    context.globalAlpha = 0.1;
    const [left, top] = [X(i / columns), Y(j / rows)];
    const [across, down] = [X((i + 1) / columns) - left, Y((j + 1) / rows) - top];
    context.fillRect(left, 0, Math.max(1, across), height);
    context.fillRect(margin, top, width, Math.max(1, down));
    context.globalAlpha = 1;
    context.strokeStyle = ink("accent");
    context.lineWidth = 2;
    context.strokeRect(left, top, Math.max(2, across), Math.max(2, down));
  }

  /** Move the cursor to a fraction of the picture; returns the description of what is there. */
  point(u, v, event = null) {
    const viewport = this.viewport;
    const { x, y, zoom } = viewport;
    const seen = u >= x && v >= y && u < x + 1 / zoom && v < y + 1 / zoom;
    viewport.cursor = seen ? { u, v } : null;
    viewport.changed();
    const lines = viewport.cursor ? this.describe(u, v) : null;
    if (event) showTip(lines, event.clientX, event.clientY);
    return lines;
  }

  listen() {
    const { canvas, viewport } = this;
    const at = (event) => {
      const place = this.place();
      return [place.U(event.clientX - place.box.left), place.V(event.clientY - place.box.top), place];
    };
    let drag = null;
    canvas.addEventListener("pointermove", (event) => {
      const [u, v, place] = at(event);
      if (!drag) return this.point(u, v, event);
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      viewport.move(drag.u - dx / place.width / viewport.zoom, drag.v - dy / place.height / viewport.zoom);
    });
    canvas.addEventListener("pointerdown", (event) => {
      if (viewport.zoom > 1) {
        drag = { x: event.clientX, y: event.clientY, u: viewport.x, v: viewport.y };
        canvas.setPointerCapture(event.pointerId);
        showTip(null);
      } else this.point(...at(event).slice(0, 2), event);
    });
    const release = () => (drag = null);
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => {
      if (!drag) this.point(-1, -1);
      showTip(null);
    });
    canvas.addEventListener("dblclick", (event) => viewport.scale(2, ...at(event).slice(0, 2)));
    // The wheel zooms only after a click or key press on the map; until then it scrolls the page.
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      viewport.scale(Math.exp(-event.deltaY / 300), ...at(event).slice(0, 2));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.point(-1, -1));
    viewport.listeners.push(() => canvas.classList.toggle("zoomed", viewport.zoom > 1));
  }

  key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const viewport = this.viewport;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") viewport.scale(1.5, viewport.cursor?.u, viewport.cursor?.v);
    else if (event.key === "-") viewport.scale(1 / 1.5, viewport.cursor?.u, viewport.cursor?.v);
    else if (event.key === "0") viewport.move(0, 0, 1);
    else if (event.key === "Escape") this.point(-1, -1);
    else if (steps[event.key]) {
      const [columns, rows] = this.shape();
      const cursor = viewport.cursor ?? { u: viewport.x, v: viewport.y };
      const step = (fraction, n, by) => (Math.min(n - 1, Math.max(0, Math.floor(fraction * n) + by)) + 0.5) / n;
      const by = viewport.cursor ? steps[event.key] : [0, 0];
      const [u, v] = [step(cursor.u, columns, by[0]), step(cursor.v, rows, by[1])];
      viewport.show(u, v);
      const place = this.place();
      const lines = this.point(u, v, { clientX: place.box.left + place.X(u), clientY: place.box.top + place.Y(v) });
      announce(lines.join(", "));
    } else return;
    event.preventDefault();
  }
}

/** A picture averaged along the sides that are longer than the room for them, so that cells of the others stay sharp. */
function shrunk(image, width, height) {
  const size = { width: Math.min(image.width, Math.round(width)), height: Math.min(image.height, Math.round(height)) };
  if (size.width === image.width && size.height === image.height) return image;
  const made = h("canvas", size);
  const context = made.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, size.width, size.height);
  return made;
}

/** Zoom buttons of a viewport. */
function zoomButtons(viewport, noun) {
  const button = (text, label, act) =>
    h("button", { type: "button", "aria-label": `${label} (${noun})`, title: label, onclick: act }, text);
  return h("span", { class: "zoom", role: "group", "aria-label": `Zoom of ${noun}` },
    button("+", "Zoom in", () => viewport.scale(1.6)), button("−", "Zoom out", () => viewport.scale(1 / 1.6)),
    button("Reset", "Show all", () => viewport.move(0, 0, 1)));
}

/** Show lines of text at the pointer, or hide them if lines is null. */
function showTip(lines, x = 0, y = 0) {
  const tip = document.getElementById("tip");
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.map((line) => h("div", {}, line)));
  const { width, height } = tip.getBoundingClientRect();
  const beyond = x + 16 + width > document.documentElement.clientWidth;
  tip.style.left = `${Math.max(4, beyond ? x - width - 12 : x + 16)}px`;
  tip.style.top = `${Math.max(4, y + 18 + height > window.innerHeight ? y - height - 12 : y + 18)}px`;
}
