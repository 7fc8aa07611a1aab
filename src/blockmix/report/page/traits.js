// Traits: what was left out of the fit, as shares and means by cluster; its colors in the map and beside the checkerboard.

const ABOUT_TRAITS = "Columns that were left out of the fit, beside the clusters. V and η² say how much a cluster tells of them, "
  + "from 0, nothing, to 1, everything; ARI is the agreement of classes and clusters beyond chance.";
const MOST_CLASSES = 20; // the smallest of more are added up

/**
 * The traits of the sampled rows. Up to 20 values are classes, of more numbers and dates are numbers. Colors come from
 * bytes: 0 is unknown, from 1 on the class, or the number between the 2 % and the 98 % quantile.
 */
const TRAITS = report.traits.map(({ name, values, codes }) => {
  const date = values.every((text) => /^\d{4}-\d\d-\d\d/.test(text));
  const numbers = values.map((text) => (date ? Date.parse(text.slice(0, 10)) / 86400000 : Number(text)));
  const numeric = numbers.every(Number.isFinite);
  if (numeric && values.length > MOST_CLASSES) {
    const own = codes.map((k) => (k < 0 ? null : numbers[k]));
    const sorted = own.filter((value) => value !== null).sort((a, b) => a - b);
    const [low, high] = [0.02, 0.98].map((q) => sorted[Math.round(q * (sorted.length - 1))]);
    const level = (value) => 1 + Math.round(254 * Math.min(1, Math.max(0, (value - low) / (high - low || 1))));
    return { name, date, classes: null, numbers: own, low, high, bytes: own.map((value) => (value === null ? 0 : level(value))) };
  }
  const sizes = values.map(() => 0);
  codes.forEach((k) => k >= 0 && sizes[k]++);
  const kept = values.map((_, k) => k).filter((k) => sizes[k])
    .sort((a, b) => sizes[b] - sizes[a]).slice(0, values.length > MOST_CLASSES ? MOST_CLASSES - 1 : undefined);
  kept.sort((a, b) => (numeric ? numbers[a] - numbers[b] : a - b));
  const place = new Map(kept.map((k, at) => [k, at + 1]));
  const others = values.length - kept.length;
  return { name, classes: [...kept.map((k) => values[k]), ...(others ? [`${others} others`] : [])],
    bytes: codes.map((k) => (k < 0 ? 0 : place.get(k) ?? kept.length + 1)) };
});

/** The codes of the lines of the checkerboard: the most frequent class of the rows of each, or their mean. */
function traitLines(trait, board) {
  return board.rowStarts.slice(1).map((stop, line) => {
    const own = board.order.slice(board.rowStarts[line], stop).map((i) => trait.bytes[i]);
    if (trait.classes) {
      const counts = new Map();
      own.forEach((code) => counts.set(code, (counts.get(code) ?? 0) + 1));
      return [...counts].sort((a, b) => b[1] - a[1])[0][0];
    }
    const known = own.filter(Boolean);
    return known.length ? Math.round(known.reduce((sum, code) => sum + code, 0) / known.length) : 0;
  });
}

/** Rows by cluster and class, or means by cluster, and how much a cluster tells of the trait. */
function traitTable(trait) {
  const G = report.summaries.length;
  const known = report.sampled.map((g, i) => [g, i]).filter(([, i]) => trait.bytes[i] > 0);
  const unknown = report.sampled.length - known.length;
  const sizes = Array.from({ length: G }, (_, g) => known.filter(([own]) => own === g).length);
  if (!trait.classes) {
    const [sums, mean] = [sizes.map(() => 0), known.reduce((sum, [, i]) => sum + trait.numbers[i], 0) / known.length];
    known.forEach(([g, i]) => (sums[g] += trait.numbers[i]));
    const means = sums.map((sum, g) => (sizes[g] ? sum / sizes[g] : null));
    const total = known.reduce((sum, [, i]) => sum + (trait.numbers[i] - mean) ** 2, 0);
    const between = means.reduce((sum, own, g) => sum + (own === null ? 0 : sizes[g] * (own - mean) ** 2), 0);
    return { unknown, means, effect: ["η²", total > 0 ? between / total : 0] };
  }
  const C = trait.classes.length;
  const counts = Array.from({ length: G }, () => new Array(C).fill(0));
  known.forEach(([g, i]) => counts[g][trait.bytes[i] - 1]++);
  const columns = trait.classes.map((_, k) => counts.reduce((sum, own) => sum + own[k], 0));
  const n = known.length;
  let square = 0;
  counts.forEach((own, g) => own.forEach((count, k) => {
    const expected = (sizes[g] * columns[k]) / n;
    if (expected) square += (count - expected) ** 2 / expected;
  }));
  const side = Math.min(sizes.filter(Boolean).length, columns.filter(Boolean).length) - 1;
  const pairs = (list) => list.reduce((sum, m) => sum + (m * (m - 1)) / 2, 0);
  const [both, chance] = [pairs(counts.flat()), (pairs(sizes) * pairs(columns)) / pairs([n])];
  const most = (pairs(sizes) + pairs(columns)) / 2;
  return { unknown, counts, effect: ["V", side > 0 ? Math.sqrt(square / n / side) : 0], ari: most > chance ? (both - chance) / (most - chance) : null };
}

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
  if (!TRAITS.length || report.summaries.length < 2 || !report.sampled) return;
  const G = report.summaries.length;
  const lines = TRAITS.map((trait) => ({ ...trait, ...traitTable(trait) })).flatMap((trait) => {
    const [kind, size] = trait.effect;
    const effect = cell(h("span", { class: "figure" }, `${kind} ${size.toFixed(2)}`, trait.ari === null || trait.ari === undefined ? null
      : h("small", {}, h("br"), `ARI ${signed(Math.abs(trait.ari) < 0.005 ? 0 : trait.ari)}`)), size);
    const part = (value, n) => {
      const bar = h("span", { class: "bar", "aria-hidden": "true" });
      bar.style.width = `${Math.round((G > 4 ? 28 : 70) * value)}px`;
      return n ? cell(h("span", { class: "share" }, bar, `${value < 0.005 ? "<1" : Math.round(100 * value)} %`), n) : cell("", 0);
    };
    const unknown = trait.unknown || null;
    if (!trait.classes) {
      return [row([named(trait.name, "b"), effect, trait.date ? "mean date" : "mean", ...trait.means.map((mean) => cell(traitNumber(trait, mean), mean)), unknown])];
    }
    const totals = trait.counts.map((counts) => counts.reduce((sum, n) => sum + n, 0));
    return trait.classes.map((name, k) => row([k ? cell("", trait.name) : named(trait.name, "b"), k ? cell("", size) : effect, h("span", { class: "figure" }, name),
      ...trait.counts.map((counts, g) => (totals[g] ? part(counts[k] / totals[g], counts[k]) : null)), k ? cell("", unknown) : unknown],
      { class: k ? "again" : null }));
  });
  const heads = ["Trait", "Effect", "", ...Array.from({ length: G }, (_, g) => calledCluster(g)), "Unknown"];
  section("traits", ["What was left out", "Left out"], h("p", {}, ABOUT_TRAITS), table("Traits by cluster", heads, lines, { class: "traits" }));
}
