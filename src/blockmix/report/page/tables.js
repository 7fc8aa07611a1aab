// Tables, searchable tables, and lists of names within a cell.

function table(caption, heads, rows, attributes = {}) {
  const head = h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)));
  const made = h("table", attributes, h("caption", { class: "unseen" }, caption), h("thead", {}, head));
  made.append(rows instanceof Element ? rows : h("tbody", {}, rows));
  const box = h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 }, made);
  const resized = new ResizeObserver(() => box.classList.toggle("wide", made.offsetWidth > box.clientWidth));
  [box, made].forEach((element) => resized.observe(element));
  return box;
}

function row(cells, attributes = {}) {
  const [first, ...others] = cells.map((cell) => (typeof cell === "number" ? thousands(cell) : cell));
  return h("tr", attributes, h("th", { scope: "row" }, first), others.map((cell) => h("td", {}, cell)));
}

/** A table with a search field; make(query) returns builders of rows, of which the first 60 are shown. */
function searchable(id, noun, heads, make, ...extra) {
  const body = h("tbody");
  const status = h("p", { class: "hint", role: "status", id: `${id}-count` });
  const more = h("button", { type: "button", class: "more-rows", onclick: () => fill(Infinity) });
  const field = h("input", {
    type: "search", id: `${id}-search`, autocomplete: "off", spellcheck: "false", oninput: () => fill(),
  });
  const fill = (most = 60) => {
    const rows = make(field.value.trim().toLowerCase());
    body.replaceChildren(...rows.slice(0, most).map((build) => build()));
    status.textContent = count(rows.length, noun) + (rows.length > most ? `, the first ${most} shown` : "");
    more.hidden = rows.length <= most;
    more.textContent = `Show all ${thousands(rows.length)}`;
  };
  const label = h("label", { for: `${id}-search` }, "Search");
  const tools = h("div", { class: "search" }, label, field, extra.map((build) => build(() => fill())));
  fill();
  return [tools, status, table(`Table: ${noun}s`, heads, body, { id }), more];
}

/** A list of names, long ones folded. Names that match the search come first and are highlighted. */
function names(list, most, query = "") {
  const hit = (name) => query !== "" && name.toLowerCase().includes(query);
  const sorted = query ? [...list.filter(hit), ...list.filter((name) => !hit(name))] : list;
  const written = (part) =>
    part.flatMap((name, i) => [i ? ", " : "", h(hit(name) ? "mark" : "span", { class: "name" }, name)]);
  const made = h("span", { class: "names" }, written(sorted.slice(0, most)));
  if (sorted.length > most) {
    const unfold = () => rest.replaceWith(", ", ...written(sorted.slice(most)));
    const text = `and ${thousands(sorted.length - most)} more`;
    const rest = h("button", { type: "button", class: "more", onclick: unfold }, text);
    made.append(" ", rest);
  }
  return made;
}

/** A small square in the color of a group. */
function dot(color) {
  const made = h("span", { class: "dot", "aria-hidden": "true" });
  made.style.background = color;
  return made;
}
