// Traits: what was left out of the fit, as shares and means by cluster; its colors in the map and beside the checkerboard.

const TRAITS = "Columns that were left out of the fit, beside the clusters. V and η² say how much a cluster tells of them, "
  + "from 0, nothing, to 1, everything.";

/** A number of a trait, or its date. */
function traitNumber(trait, value) {
  if (value === null) return "–";
  return trait.date ? new Date(value * 86400000).toISOString().slice(0, 10) : short(value);
}

/** Color of a code of a trait: gray is unknown. */
function traitColor(trait, code) {
  if (code === 0) return ink("rule");
  if (trait.classes) return trait.classes.length > 8 && code > 16 ? ink("faint") : TRAIT_COLORS[(code - 1) % TRAIT_COLORS.length];
  const [from, to] = theme() === "dark" ? [[40, 48, 58], [248, 214, 120]] : [[250, 240, 205], [96, 52, 110]];
  return `rgb(${from.map((low, i) => Math.round(low + ((to[i] - low) * (code - 1)) / 254)).join()})`;
}

function traitText(trait, code) {
  if (code === 0) return "not known";
  if (trait.classes) return trait.classes[code - 1];
  return traitNumber(trait, trait.low + ((code - 1) / 254) * (trait.high - trait.low));
}

/** The key to the colors of a trait. */
function traitKey(trait) {
  const swatch = (color) => {
    const made = h("span", { class: "dot" });
    made.style.background = color;
    return made;
  };
  if (trait.classes) return trait.classes.map((name, k) => h("span", {}, swatch(traitColor(trait, k + 1)), name));
  return [1, 128, 255].map((code) => h("span", {}, swatch(traitColor(trait, code)), traitText(trait, code)));
}

function traitSection() {
  if (!report.traits.length || !report.isMixture) return;
  const G = report.summaries.length;
  const lines = report.traits.flatMap((trait) => {
    const [kind, size] = trait.effect;
    const effect = cell(h("span", {}, `${kind} ${size.toFixed(2)}`, trait.ari === null || trait.ari === undefined ? null
      : h("small", {}, ` ARI ${signed(Math.abs(trait.ari) < 0.005 ? 0 : trait.ari)}`)), size);
    const unknown = trait.unknown || null;
    if (!trait.classes) {
      return [row([named(trait.name, "b"), trait.date ? "middle date" : "mean", ...trait.means.map((mean) => cell(traitNumber(trait, mean), mean)), effect, unknown])];
    }
    const totals = trait.counts.map((counts) => counts.reduce((sum, n) => sum + n, 0));
    return trait.classes.map((name, k) => row([k ? cell("", trait.name) : named(trait.name, "b"), named(name),
      ...trait.counts.map((counts, g) => (totals[g] ? share(counts[k] / totals[g], counts[k]) : null)), k ? cell("", size) : effect, k ? cell("", unknown) : unknown],
      { class: k ? "again" : null }));
  });
  const heads = ["Trait", "", ...Array.from({ length: G }, (_, g) => calledCluster(g)), "Effect", "Unknown"];
  section("traits", ["What was left out", "Left out"], h("p", {}, TRAITS), table("Traits by cluster", heads, lines, { class: "traits" }));
}
