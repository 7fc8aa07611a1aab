// Topics: the page about topics of documents, with its map, sentences, cards, shares, heat map and term groups.

const NEAR_PIXELS = 16; // the pointer finds a document within this distance
const UNCLEAR = 0.5;

/** Fraction of the color scale of an importance in percent: doubling and halving are equally far from 100. */
function warmth(percent) {
  return percent === null ? 0.5 : 0.5 + Math.log2(Math.max(percent, 1) / 100) / 4;
}

function shade(fraction) {
  return `rgb(${mixed(fraction).join(" ")})`;
}

/** Text that can be read on a color of the scale. */
function onShade(fraction) {
  const [r, g, b] = mixed(fraction);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14161a" : "#f4f2ed";
}

/** Groups in the order of the map: those of the first topics first, the background last. */
function groupOrder() {
  const all = report.groups.map((_, k) => k);
  return [...all.filter((k) => !report.groups[k].background), ...all.filter((k) => report.groups[k].background)];
}

function groupTitle(k) {
  return report.groups[k].background ? `Background: ${count(report.groups[k].terms.length, "term")}` : report.groups[k].name;
}

function heat(width) {
  const narrow = width < 560;
  const { topics, groups, importance } = report;
  const step = narrow ? 44 : 26;
  const left = narrow ? 0 : Math.round(Math.min(360, width * 0.4));
  const cellWidth = (width - left) / topics.length;
  const Y = (at) => 42 + at * step;
  const context = h("canvas").getContext("2d");
  context.font = `12px ${FONT}`;
  const words = (k) => (groups[k].background ? groupTitle(k) : groups[k].terms.join(", "));
  const head = (topic, g) => {
    const [x, rating] = [left + (g + 0.5) * cellWidth, topic.rating === null ? "" : `★ ${topic.rating.toFixed(2)}`];
    return [h("text", { x, y: 14, "text-anchor": "middle", class: "label strong" }, narrow ? String(g + 1) : `Topic ${g + 1}`),
      h("text", { x, y: 31, "text-anchor": "middle", class: "soft" },
        fitted(context, rating || count(topic.size, "document"), cellWidth - 4))];
  };
  const square = (k, at) => (_, g) => {
    const percent = importance[g][k];
    const [x, y] = [left + g * cellWidth, Y(at) + (narrow ? 18 : 0)];
    const color = groups[k].background ? ink("rule") : shade(warmth(percent));
    const text = groups[k].background ? ink("text") : onShade(warmth(percent));
    return h("g", {}, h("title", {}, `${groupTitle(k)}, topic ${g + 1}: ${percent === null ? "no documents" : `${percent} %`}`),
      h("rect", { x: x + 1, y, width: cellWidth - 2, height: 24, rx: 3, fill: color }),
      h("text", { x: x + cellWidth / 2, y: y + 16, "text-anchor": "middle", fill: text },
        percent === null ? "–" : String(Math.round(percent))));
  };
  const line = (k, at) => {
    const room = narrow ? width - 4 : left - 14;
    const name = h("text", narrow ? { x: 2, y: Y(at) + 12, class: "label" }
      : { x: left - 10, y: Y(at) + 16, "text-anchor": "end", class: "label" }, fitted(context, words(k), room));
    return h("g", {}, name, topics.map(square(k, at)));
  };
  const height = Y(groups.length) + 4;
  return h("svg", { viewBox: `0 0 ${width} ${height}`, class: "heat", role: "img",
    "aria-label": "Importance of each term group for each topic in percent of the average" },
    topics.map(head), groupOrder().map(line));
}

function heatMap() {
  const box = responsive(heat);
  const { topics, groups, importance } = report;
  const heads = ["group", "terms", ...topics.map((_, g) => `topic ${g + 1}`)];
  const lines = () => [heads, ...groupOrder().map((k) =>
    [groupTitle(k), groups[k].terms.length, ...importance.map((row) => row[k])])];
  section("importance", ["Topics and term groups", "Importance"],
    h("p", {}, "Mean weight of the group's terms in the documents of a topic, in percent of their mean in all documents. "
      + "Red: more than on average; blue: less."
      + (topics[0].rating === null ? "" : " ★ is the mean rating; topics are ordered by it, lowest first.")),
    box, h("div", { class: "gets" }, svgButton("importance", () => box.firstChild), csvButton("importance", lines)));
}

/** The topic that is selected on the map, or null, and the search there. */
const chosen = { topic: null, query: "", listeners: [] };

function selectTopic(g) {
  chosen.topic = chosen.topic === g ? null : g;
  for (const listener of chosen.listeners) listener();
  announce(chosen.topic === null ? "All topics" : `Topic ${g + 1}: ${report.topics[g].words.join(", ")}`);
}

/** Color of a topic: after eight they come again, darker or lighter. */
function topicColor(g) {
  const round = Math.floor(g / COMPONENT_COLORS.length) % 3;
  const toward = round === 1 ? 20 : 235;
  const parts = componentColor(g).match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
  return `rgb(${parts.map((part) => Math.round(round ? 0.6 * part + 0.4 * toward : part)).join(" ")})`;
}

function rated(rating) {
  return rating === null ? "" : `, mean rating ${rating.toFixed(2)}`;
}

/** Documents as points on discs that are topics. */
function drawnMap(width) {
  const { map, topics } = report;
  const [bottom, narrow] = [Math.max(...map.centers.map(([, y], g) => y + map.radii[g])), width < 560];
  const right = Math.max(...map.centers.map(([x], g) => x + map.radii[g]));
  const room = narrow ? 18 : 30; // for the words below a disc
  const size = Math.min(width - 8, 1180) / right;
  const left = (width - size * right) / 2;
  const [X, Y] = [(x) => left + size * x, (y) => 6 + (size - 12) * y];
  const context = h("canvas").getContext("2d");
  context.font = `600 ${narrow ? 10 : 12.5}px ${FONT}`;
  const radius = Math.max(1.4, Math.min(4, 0.42 * size * Math.sqrt(map.radii.reduce((sum, r) => sum + r * r, 0) / map.x.length)));
  const discs = map.centers.map(([x, y], g) => h("circle", { cx: X(x), cy: Y(y), r: size * map.radii[g] + 4,
    class: "disc", "data-topic": g, stroke: topicColor(g), fill: topicColor(g) }));
  const query = chosen.query;
  const points = map.x.map((x, i) => {
    const g = map.topics[i];
    const faded = (chosen.topic !== null && g !== chosen.topic) || (query && !haystack(i).includes(query));
    return h("circle", { cx: X(x).toFixed(1), cy: Y(map.y[i]).toFixed(1), r: radius.toFixed(1), "data-document": i,
      class: faded ? "point faded" : map.probabilities[i] < UNCLEAR ? "point unclear" : "point",
      fill: topicColor(g), stroke: topicColor(g) });
  });
  const labels = map.centers.map(([x, y], g) => {
    const reach = size * map.radii[g];
    const words = narrow ? "" : fitted(context, topics[g].words.slice(0, 3).join(", "), Math.max(96, 2.2 * reach));
    const faded = chosen.topic !== null && g !== chosen.topic;
    return h("text", { x: X(x), y: Y(y) + reach + (narrow ? 13 : 19), "text-anchor": "middle",
      class: faded ? "map-label faded" : "map-label" }, narrow ? String(g + 1) : `${g + 1}  ${words}`);
  });
  const ring = h("circle", { r: 9, class: "ring", visibility: "hidden" });
  const svg = h("svg", { viewBox: `0 0 ${width} ${Math.ceil(Y(bottom) + room)}`, class: "map", role: "img", tabindex: 0,
    "aria-label": "Map of the documents. Arrow keys go from document to document, Enter selects its topic." },
    discs, points, labels, ring);
  follow(svg, ring, (i) => [X(map.x[i]), Y(map.y[i])]);
  return svg;
}

function haystack(i) {
  const { names, texts } = report.map;
  return `${names[i]} ${texts ? texts[i] : ""}`.toLowerCase();
}

function documentLines(i) {
  const { map, topics } = report;
  const g = map.topics[i];
  const rating = map.ratings && map.ratings[i] !== null ? ` · rating ${map.ratings[i]}` : "";
  return [`Topic ${g + 1}: ${topics[g].words.slice(0, 5).join(", ")}`,
    `Document ${map.names[i]}${rating} · probability ${map.probabilities[i].toFixed(2)}`, map.texts ? map.texts[i] : ""]
    .filter(Boolean);
}

/** Tips at the pointer and by arrow keys; a click or Enter selects the topic. */
function follow(svg, ring, place) {
  const { map } = report;
  let at = null;
  const box = () => svg.getBoundingClientRect();
  const scaleOf = () => box().width / svg.viewBox.baseVal.width;
  const nearest = (event) => {
    const { left, top } = box();
    const [x, y] = [(event.clientX - left) / scaleOf(), (event.clientY - top) / scaleOf()];
    let [best, distance] = [null, NEAR_PIXELS];
    for (let i = 0; i < map.x.length; i++) {
      if (chosen.topic !== null && map.topics[i] !== chosen.topic) continue;
      const [px, py] = place(i);
      const away = Math.hypot(px - x, py - y);
      if (away < distance) [best, distance] = [i, away];
    }
    return best;
  };
  const show = (i) => {
    at = i;
    ring.setAttribute("visibility", i === null ? "hidden" : "visible");
    if (i === null) return showTip(null);
    const [x, y] = place(i);
    ring.setAttribute("cx", x);
    ring.setAttribute("cy", y);
    return showTip(documentLines(i), box().left + x * scaleOf(), box().top + y * scaleOf());
  };
  const ordered = map.x.map((_, i) => i).sort((a, b) => map.topics[a] - map.topics[b] || map.probabilities[b] - map.probabilities[a]);
  svg.addEventListener("pointermove", (event) => show(nearest(event)));
  svg.addEventListener("pointerleave", () => show(null));
  svg.addEventListener("blur", () => show(null));
  svg.addEventListener("click", (event) => {
    const i = nearest(event);
    const disc = event.target.dataset.topic;
    if (i !== null || disc !== undefined) selectTopic(i === null ? Number(disc) : map.topics[i]);
    else if (chosen.topic !== null) selectTopic(chosen.topic);
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step) {
      show(ordered[(ordered.indexOf(at) + step + ordered.length) % ordered.length]);
      announce(documentLines(at).join(", "));
      event.preventDefault();
    } else if (event.key === "Enter" && at !== null) {
      selectTopic(map.topics[at]);
    }
  });
}

/** A sentence for each topic, which selects it on the map. */
function sentences() {
  const items = report.topics.map((topic, g) => {
    const [first, rest] = [topic.words.slice(0, 5).join(", "), topic.words.slice(5).join(", ")];
    const button = h("button", { type: "button", class: "pick", "aria-pressed": "false", onclick: () => selectTopic(g) },
      dot(topicColor(g)), `Topic ${g + 1}`);
    const size = topic.size ? `${count(topic.size, "document")}, ${Math.round(100 * topic.share)}\u00a0%${rated(topic.rating)}`
      : "no documents";
    const item = h("li", {}, button, " ", h("b", {}, first || "no word of its own"), rest ? `, ${rest}` : "", ". ",
      h("span", { class: "soft" }, `${size}${topic.unclear ? `, ${thousands(topic.unclear)} unclear` : ""}. `),
      h("a", { href: `#topic-${g}` }, "Documents"));
    chosen.listeners.push(() => {
      button.setAttribute("aria-pressed", String(chosen.topic === g));
      item.classList.toggle("faded", chosen.topic !== null && chosen.topic !== g);
    });
    return item;
  });
  return h("ol", { class: "sentences" }, items);
}

function opening() {
  const { map, unclear, withoutTopic, agreement, reason } = report;
  const parts = [];
  if (map) {
    const box = responsive(drawnMap, { class: "map-box" });
    chosen.listeners.push(() => box.rebuild());
    const status = h("p", { class: "hint", role: "status", id: "map-count" });
    const search = (event) => {
      chosen.query = event.target.value.trim().toLowerCase();
      const hits = map.x.filter((_, i) => haystack(i).includes(chosen.query)).length;
      status.textContent = chosen.query ? `${count(hits, "document")} found` : "";
      box.rebuild();
    };
    const sample = map.x.length < map.of ? ` ${thousands(map.x.length)} of ${thousands(map.of)} documents are drawn.` : "";
    parts.push(h("p", {}, "Each disc is a topic and each point a document. The clearer its topic, the nearer it lies to the "
      + "center; a document that may belong to another topic lies on that side, and hollow ones have no clear topic. "
      + `Click a disc to select it.${sample}`),
      h("div", { class: "search" }, h("label", { for: "map-search" }, "Search the documents"),
        h("input", { type: "search", id: "map-search", autocomplete: "off", spellcheck: "false", oninput: search }), status),
      box, h("div", { class: "gets" }, svgButton("map", () => box.firstChild)));
  }
  const notes = [
    reason ? `${reason[0].toUpperCase()}${reason.slice(1)}.` : "",
    agreement === null ? "" : `Fits to two halves of the documents give ${Math.round(100 * agreement)}\u00a0% of them the `
      + "same topic; the probability of a topic is the share of such fits that would agree.",
    unclear ? `${count(unclear, "document")} without a clear topic (probability below 0.5) ${unclear === 1 ? "is" : "are"} `
      + "counted with the most probable one." : "",
    withoutTopic ? `${count(withoutTopic, "document")} with none of the words: no topic.` : "",
  ];
  section("overview", ["Topics", "Topics"], ...parts, sentences(),
    h("p", { class: "hint" }, notes.filter(Boolean).join(" ")), overviewTable());
}

function overviewTable() {
  const hasRating = report.topics.some(({ rating }) => rating !== null);
  const lines = report.topics.map((topic, g) => row([h("a", { href: `#topic-${g}` }, `Topic ${g + 1}`), topic.size,
    share(topic.share), topic.unclear, ...(hasRating ? [figure(topic.rating)] : []), topic.words.join(", ")]));
  const heads = ["Topic", "Documents", "Share", "Unclear", ...(hasRating ? ["Mean rating"] : []), "Words"];
  return h("details", { class: "fold" }, h("summary", {}, "As a table"),
    table("Topics", heads, lines, { id: "topic-table" }));
}

/** Shares of topics by category or time, with intervals. */
function drawnShares(width) {
  const { names: labels, shares, low, high, ordered } = report.by;
  const [G, C, columns] = [shares.length, labels.length, Math.max(1, Math.floor(width / 250))];
  const [cellWidth, cellHeight] = [width / Math.min(columns, G), 132];
  const most = Math.max(...high.flat().filter((value) => value !== null), 0.01);
  const context = h("canvas").getContext("2d");
  context.font = `12px ${FONT}`;
  const panel = (_, g) => {
    const [left, top] = [(g % columns) * cellWidth, Math.floor(g / columns) * cellHeight];
    const X = (c) => left + 46 + (C > 1 ? (c / (C - 1)) : 0.5) * (cellWidth - 74);
    const Y = (value) => top + 96 - 68 * (value / most);
    const shown = labels.map((_, c) => c).filter((c) => shares[g][c] !== null);
    const title = fitted(context, `${g + 1}  ${report.topics[g].words.slice(0, 3).join(", ")}`, cellWidth - 16);
    const bars = shown.map((c) => h("g", {}, h("title", {}, `${labels[c]}: ${(100 * shares[g][c]).toFixed(1)} % (`
      + `${(100 * low[g][c]).toFixed(1)} to ${(100 * high[g][c]).toFixed(1)} %), ${count(report.by.counts[g][c], "document")}`),
      h("line", { x1: X(c), x2: X(c), y1: Y(low[g][c]), y2: Y(high[g][c]), stroke: topicColor(g), class: "interval" }),
      h("circle", { cx: X(c), cy: Y(shares[g][c]), r: 3.4, fill: topicColor(g) })));
    const path = shown.map((c, k) => `${k ? "L" : "M"}${X(c).toFixed(1)} ${Y(shares[g][c]).toFixed(1)}`).join("");
    const ticks = C > 1 ? [0, C - 1] : [0];
    return h("g", {}, h("text", { x: left + 4, y: top + 14, class: "label strong" }, title),
      h("line", { x1: left + 40, x2: left + cellWidth - 20, y1: Y(0), y2: Y(0), class: "rule" }),
      h("text", { x: left + 36, y: Y(most) + 4, "text-anchor": "end", class: "soft" }, `${Math.round(100 * most)} %`),
      h("text", { x: left + 36, y: Y(0) + 4, "text-anchor": "end", class: "soft" }, "0"),
      ordered ? h("path", { d: path, fill: "none", stroke: topicColor(g), class: "trend" }) : null, bars,
      ticks.map((c) => h("text", { x: X(c), y: top + 114, class: "soft", "text-anchor": c && C > 1 ? "end" : "start" },
        fitted(context, labels[c].replace("from ", ""), cellWidth / 2 - 24))));
  };
  return h("svg", { viewBox: `0 0 ${width} ${Math.ceil(G / columns) * cellHeight}`, class: "heat shares", role: "img",
    "aria-label": `Share of each topic by ${report.by.name}` }, report.topics.map(panel));
}

function byValue() {
  if (!report.by) return;
  const { by, topics } = report;
  const box = responsive(drawnShares);
  const heads = ["topic", "words", "category", "documents", "share", "low", "high"];
  const lines = () => [heads, ...topics.flatMap(({ words }, g) => by.names.map((name, c) =>
    [g, words.slice(0, 3).join(", "), name, by.counts[g][c], by.shares[g][c], by.low[g][c], by.high[g][c]]))];
  section("by", [`Topics by ${by.name}`, "By"],
    h("p", {}, `Share of each topic among the documents of each ${by.ordered ? "stretch" : "category"} of ${by.name}; bars are `
      + `95\u00a0% intervals. From left to right: ${by.names.slice(0, 12).join(" · ")}${by.names.length > 12 ? " …" : ""}.`),
    box, h("div", { class: "gets" }, svgButton("by", () => box.firstChild), csvButton("by", lines)));
}

/** Number of documents by rating, as small bars. */
function ratings(counts) {
  if (!counts?.length) return null;
  const most = Math.max(...counts, 1);
  const bar = (number, at) => {
    const column = h("span", { class: "column" });
    column.style.height = `${Math.max(2, (42 * number) / most)}px`;
    return h("span", { title: `${count(number, "document")} with rating ${report.levels[at]}` }, column,
      h("small", {}, String(report.levels[at])));
  };
  const text = counts.map((number, at) => `${report.levels[at]}: ${number}`).join(", ");
  return h("div", { class: "ratings", role: "img", "aria-label": `Documents by rating: ${text}` }, counts.map(bar));
}

/** A text with the words of the topic highlighted; long ones are folded. */
function readable(text, terms, most = 420) {
  const pieces = report.characters ? new RegExp(`(${[...terms].map((word) => word.replace(/[^\p{L}]/gu, "")).join("|")})`, "iu")
    : /([\p{L}\p{N}_]+)/u;
  const part = (words) => words.split(pieces)
    .map((word) => (terms.has(word.toLowerCase()) ? h("mark", {}, word) : word));
  if (text.length <= most * 1.2) return h("p", { class: "text" }, part(text));
  const cutAt = text.lastIndexOf(" ", most) + 1 || most;
  const unfold = () => button.replaceWith(...part(text.slice(cutAt)));
  const button = h("button", { type: "button", class: "more", onclick: unfold }, "… read on");
  return h("p", { class: "text" }, part(text.slice(0, cutAt)), button);
}

function topicCards() {
  const texts = new Map(); // of the items of the lists, whole where an item is folded
  const search = (event) => {
    const query = event.target.value.trim().toLowerCase();
    for (const [item, text] of texts) item.hidden = !text.includes(query);
  };
  const card = (topic, g) => {
    const terms = new Set(topic.words.flatMap((words) => words.split(" ")));
    const document = ({ name, rating, text, probability }) => {
      const made = h("li", {}, h("small", {}, `Document ${name}${rating === null ? "" : ` · rating ${rating}`}`
        + ` · probability ${probability.toFixed(2)}`),
        text === null ? null : readable(text, terms));
      texts.set(made, `${name} ${text}`.toLowerCase());
      return made;
    };
    const top = topic.top.map((k) => h("li", {}, h("b", {}, groupTitle(k)), ` ${Math.round(report.importance[g][k])}\u00a0%`));
    return h("section", { class: "component", id: `topic-${g}`, "aria-labelledby": `topic-${g}-heading` },
      h("h3", { id: `topic-${g}-heading` }, dot(topicColor(g)), `Topic ${g + 1}`,
        h("span", { class: "aside" }, `${count(topic.size, "document")}${rated(topic.rating)}`)),
      topic.words.length ? h("p", { class: "topic-words" }, topic.words.map((word) => h("span", { class: "word" }, word))) : null,
      topic.size ? null : h("p", { class: "hint" }, "No document has this topic as its most probable one."),
      h("div", { class: "topic" }, h("div", {}, top.length ? [h("small", {}, "Term groups above average"), h("ul", { class: "tops" }, top)] : null, ratings(topic.counts)),
        topic.documents.length ? h("ol", { class: "documents" }, topic.documents.map(document)) : null));
  };
  const heads = ["topic", "document", "rating", "text"];
  const lines = () => [heads, ...report.topics.flatMap(({ documents }, g) =>
    documents.map(({ name, rating, text }) => [g, name, rating, text]))];
  section("topics", "Typical documents",
    h("p", {}, "Documents that are near to their topic and hold its words"
      + (report.isText ? ", which are highlighted." : ". Their texts were not given.")),
    h("div", { class: "search" }, h("label", { for: "document-search" }, "Search"),
      h("input", { type: "search", id: "document-search", autocomplete: "off", spellcheck: "false", oninput: search }),
      csvButton("typical documents", lines)),
    report.topics.map(card));
}

/** Terms of the groups, with their weights as bars; the background is folded. */
function termGroups() {
  const weight = (k, j) => {
    const { terms, weights } = report.groups[k];
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(1, Math.round(40 * Math.max(0, weights[j])))}px`;
    return { term: terms[j], shown: h("li", {}, h("span", { class: "name" }, terms[j]), bar, weights[j].toFixed(2)) };
  };
  const card = (k, query) => {
    const { terms, background } = report.groups[k];
    const hits = terms.map((_, j) => j).filter((j) => terms[j].toLowerCase().includes(query));
    if (query && !hits.length) return null;
    const open = query !== "" || !background;
    const chosen = query ? hits : terms.map((_, j) => j);
    const list = h("ul", { class: "terms" }, chosen.slice(0, 12).map((j) => weight(k, j).shown));
    const rest = chosen.slice(12);
    const unfold = (event) => {
      list.append(...rest.map((j) => weight(k, j).shown));
      event.target.remove();
    };
    const more = rest.length ? h("button", { type: "button", class: "more", onclick: unfold },
      `and ${thousands(rest.length)} more`) : null;
    const copy = copyButton(`the terms of ${groupTitle(k)}`, () => terms.join("\n"));
    if (!background) return h("div", { class: "term-group" }, h("h3", {}, groupTitle(k), " ", copy), list, more);
    return h("details", { class: "term-group", open }, h("summary", {}, groupTitle(k)),
      h("p", { class: "hint" }, "Terms that go with no others in particular. ", copy), list, more);
  };
  const box = h("div", { class: "cards", id: "term-groups" });
  const status = h("p", { class: "hint", role: "status", id: "term-count" });
  const fill = (query) => {
    const found = report.groups.flatMap(({ terms }) => terms).filter((term) => term.toLowerCase().includes(query));
    box.replaceChildren(...groupOrder().map((k) => card(k, query)).filter(Boolean));
    status.textContent = `${count(found.length, "term")}${query ? " found" : ""}`;
  };
  fill("");
  const heads = ["group", "name", "term", "weight"];
  const lines = () => [heads, ...report.groups.flatMap(({ terms, weights }, k) =>
    terms.map((term, j) => [k, groupTitle(k), term, weights[j]]))];
  const field = h("input", { type: "search", id: "term-search", autocomplete: "off", spellcheck: "false",
    oninput: (event) => fill(event.target.value.trim().toLowerCase()) });
  const stable = report.stable.map((terms) => h("li", {}, terms.join(", ")));
  const holds = !report.smoothing ? [] : [h("h3", {}, "Terms that hold together"),
    h("p", {}, stable.length ? "Sets of terms that are also grouped together in fits to each of two halves of the documents: "
      + "these are findings." : "No terms are grouped together in fits to each of two halves of the documents."),
    stable.length ? h("ul", { class: "stable" }, stable) : null,
    h("h3", {}, "All groups"), h("p", {}, "An index of the vocabulary: other documents would give other groups. The first terms "
      + "of a group are the most central ones.")];
  section("terms", "Term groups", ...holds,
    report.smoothing ? null : h("p", {}, "The weight of a term is its correlation with the sum of its group: the first terms "
      + "represent it best."),
    h("div", { class: "search" }, h("label", { for: "term-search" }, "Search"), field, csvButton("terms", lines)),
    status, box);
}

heading(["Documents", "Topics", "Words"]);
opening();
topicCards();
byValue();
heatMap();
termGroups();
section("facts", "Figures", warnings(), facts());
made();
themes();
