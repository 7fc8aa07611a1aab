// Topics: the page about topics of documents, with its heat map of importances, cards and term groups.

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
    return [h("text", { x, y: 14, "text-anchor": "middle", class: "label strong" }, narrow ? String(g) : `Topic ${g}`),
      h("text", { x, y: 31, "text-anchor": "middle", class: "soft" },
        fitted(context, rating || count(topic.size, "document"), cellWidth - 4))];
  };
  const square = (k, at) => (_, g) => {
    const percent = importance[g][k];
    const [x, y] = [left + g * cellWidth, Y(at) + (narrow ? 18 : 0)];
    const color = groups[k].background ? ink("rule") : shade(warmth(percent));
    const text = groups[k].background ? ink("text") : onShade(warmth(percent));
    return h("g", {}, h("title", {}, `${groupTitle(k)}, topic ${g}: ${percent === null ? "no documents" : `${percent} %`}`),
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
  const heads = ["group", "terms", ...topics.map((_, g) => `topic ${g}`)];
  const lines = () => [heads, ...groupOrder().map((k) =>
    [groupTitle(k), groups[k].terms.length, ...importance.map((row) => row[k])])];
  section("importance", ["Topics and term groups", "Importance"],
    h("p", {}, "Mean weight of the group's terms in the documents of a topic, in percent of their mean in all documents. "
      + "Red: more than on average; blue: less."
      + (topics[0].rating === null ? "" : " ★ is the mean rating; topics are ordered by it, lowest first.")),
    box, h("div", { class: "gets" }, svgButton("importance", () => box.firstChild), csvButton("importance", lines)));
}

function topicOverview() {
  const rated = report.topics.some(({ rating }) => rating !== null);
  const lines = report.topics.map((topic, g) => {
    const top = names(topic.top.map((k) => ({ name: groupTitle(k), note: `${Math.round(report.importance[g][k])}\u00a0%` })),
      5, "", "; ");
    return row([h("a", { href: `#topic-${g}` }, `Topic ${g}`), topic.size, share(topic.share),
      ...(rated ? [figure(topic.rating)] : []), top]);
  });
  const heads = ["Topic", "Documents", "Share", ...(rated ? ["Mean rating"] : []), "Term groups above average"];
  const without = report.withoutTopic;
  section("overview", "Overview", warnings(), facts(), table("Topics", heads, lines, { id: "topic-table" }),
    without ? h("p", { class: "hint" }, `${count(without, "document")} with none of the terms: no topic.`) : null);
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

/** A text with the terms of the topic's groups highlighted; long ones are folded. */
function readable(text, terms, most = 420) {
  const part = (words) => words.split(/([\p{L}\p{N}_]+)/u)
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
    const terms = new Set(topic.top.filter((k) => !report.groups[k].background).flatMap((k) => report.groups[k].terms));
    const rating = topic.rating === null ? "" : `, mean rating ${topic.rating.toFixed(2)}`;
    const document = ({ name, rating, text }) => {
      const made = h("li", {}, h("small", {}, `Document ${name}${rating === null ? "" : ` · rating ${rating}`}`),
        text === null ? null : readable(text, terms));
      texts.set(made, `${name} ${text}`.toLowerCase());
      return made;
    };
    const top = topic.top.map((k) => h("li", {}, h("b", {}, groupTitle(k)), ` ${Math.round(report.importance[g][k])}\u00a0%`));
    return h("section", { class: "component", id: `topic-${g}`, "aria-labelledby": `topic-${g}-heading` },
      h("h3", { id: `topic-${g}-heading` }, `Topic ${g}`,
        h("span", { class: "aside" }, `${count(topic.size, "document")}${rating}`)),
      topic.size ? null : h("p", { class: "hint" }, "No document has this topic as its most probable one."),
      h("div", { class: "topic" }, h("div", {}, top.length ? h("ul", { class: "tops" }, top) : null, ratings(topic.counts)),
        topic.documents.length ? h("ol", { class: "documents" }, topic.documents.map(document)) : null));
  };
  const heads = ["topic", "document", "rating", "text"];
  const lines = () => [heads, ...report.topics.flatMap(({ documents }, g) =>
    documents.map(({ name, rating, text }) => [g, name, rating, text]))];
  section("topics", "Typical documents",
    h("p", {}, "Documents that point most clearly from the average document to their topic"
      + (report.isText ? ", with the terms of its leading groups highlighted." : ". Their texts were not given.")),
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
  section("terms", "Term groups",
    h("p", {}, "The weight of a term is its correlation with the sum of its group: the first terms represent it best."),
    h("div", { class: "search" }, h("label", { for: "term-search" }, "Search"), field, csvButton("terms", lines)),
    status, box);
}

heading(["Documents", "Topics", "Terms"]);
topicOverview();
heatMap();
topicCards();
termGroups();
made();
themes();
