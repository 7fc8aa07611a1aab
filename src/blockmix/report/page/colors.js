// Colors: a diverging map for signed values whose middle is the background of the page, and the colors of groups.

const DIVERGING = {
  light: ["#0a3d73", "#2f76b5", "#8fbbdc", "#f5f3ef", "#eda582", "#c6523a", "#7d1420"],
  dark: ["#a8d8ff", "#4f9fe0", "#22527f", "#191b1f", "#7d3b26", "#e0764c", "#ffcfae"],
};

// Okabe and Ito's colors, slightly muted, and two more; a column alone is gray.
const GROUP_COLORS = ["#0072b2", "#d55e00", "#009e73", "#b5578c", "#b58900", "#3f9fcf", "#7a5ea8", "#8a6d3b"];

// Of components, so that they are not taken for groups.
const COMPONENT_COLORS = ["#3b6fd4", "#e2951b", "#d9483b", "#2a9d8f", "#9b59d0", "#8d6e52", "#e26fa8", "#6f9a24"];

// Of traits: paler than clusters, so that strips are not taken for them.
const TRAIT_COLORS = ["#7fb2e5", "#f2b36f", "#8fcf9f", "#e79ac0", "#c9b458", "#a99be0", "#c4a484", "#6fc3c9"];

const FONT = '-apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", system-ui, sans-serif';

let printing = false;
let exporting = false; // while a picture is drawn for a file

/** Pixels of a canvas per pixel of the page. */
function sharpness() {
  return exporting ? 3 : printing ? 2 : window.devicePixelRatio || 1;
}

function theme() {
  if (printing) return "light";
  const chosen = document.documentElement.dataset.theme;
  return chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** Colors of the bytes 0 … 254, and gray for a missing value, 255, packed as a canvas stores them. */
function lookup() {
  return Uint32Array.from({ length: 256 }, (_, byte) => {
    const [r, g, b] = byte === 255 ? rgb(ink("gap")) : mixed(byte / 254);
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

/** Red, green and blue of the diverging map at a fraction of its length. */
function mixed(fraction) {
  const stops = DIVERGING[theme()].map(rgb);
  const at = Math.min(1, Math.max(0, fraction)) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * (at - low)));
}

/** Color of the group with this number; gray for a column alone. */
function groupColor(number, alone) {
  return alone ? ink("faint") : GROUP_COLORS[number % GROUP_COLORS.length];
}

function componentColor(g) {
  return COMPONENT_COLORS[g % COMPONENT_COLORS.length];
}

/** A color of the current theme. */
function ink(name) {
  const inks = {
    light: {
      text: "#1d2024", soft: "#5d646d", faint: "#a9aeb5", frame: "#14161a", ground: "#ffffff", rule: "#e4e1da",
      accent: "#9a3412", gap: "#777c83",
    },
    dark: {
      text: "#e9e7e2", soft: "#a3a8b0", faint: "#6b7078", frame: "#f4f2ed", ground: "#191b1f", rule: "#2c3036",
      accent: "#ffbb88", gap: "#868c94",
    },
  };
  return inks[theme()][name];
}

/** Color scale of a picture with its limits. */
function scale(limit, noun) {
  const bar = h("canvas", { width: 255, height: 1, "aria-hidden": "true" });
  const paint = () => {
    const context = bar.getContext("2d");
    const image = context.createImageData(255, 1);
    new Uint32Array(image.data.buffer).set(lookup().subarray(0, 255));
    context.putImageData(image, 0, 0);
  };
  redraws.add(paint);
  paint();
  return h("p", { class: "scale" }, h("span", {}, `−${limit}`), bar, h("span", {}, `+${limit} ${noun}`));
}

/** Functions to call when the theme or the print mode changes. */
const redraws = new Set();

function redrawAll() {
  for (const redraw of redraws) redraw();
}
