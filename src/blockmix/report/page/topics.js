// Topics: their documents and ratings, and the terms of the groups.

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
