// Tables, searchable tables, and lists of names within a cell.

/** A table that can be downloaded; rows come from `row`, or are a tbody that is filled by `searchable`. */
function table(caption, heads, rows, attributes = {}, records = null) {
  const head = h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)));
  const made = h("table", attributes, h("caption", { class: "unseen" }, caption), h("thead", {}, head));
  made.append(rows instanceof Element ? rows : h("tbody", {}, rows));
  const box = h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 }, made);
  const resized = new ResizeObserver(() => box.classList.toggle("wide", made.offsetWidth > box.clientWidth));
  [box, made].forEach((element) => resized.observe(element));
  const lines = () => [heads, ...(records ? records() : [...rows].map(({ values }) => values).filter(Boolean))];
  return h("div", { class: "table" }, box, h("div", { class: "gets" }, csvButton(caption, lines)));
}

/** A cell that shows one thing and is another in a file. */
function cell(shown, value) {
  return { shown, value };
}

/** A row of cells: texts, numbers, or what `cell` makes. Its plain values are kept for downloads. */
function row(cells, attributes = {}) {
  const shown = (item) => item?.shown ?? (typeof item === "number" ? thousands(item) : item ?? "–");
  const [first, ...others] = cells.map(shown);
  const made = h("tr", attributes, h("th", { scope: "row" }, first), others.map((item) => h("td", {}, item)));
  made.values = cells.map((item) => (item?.shown !== undefined && !(item instanceof Element) ? item.value : item));
  return made;
}

/** A figure with a number of digits, which a file has in full. */
function figure(value, digits = 2) {
  return value === null || value === undefined ? null : cell(signed(value, digits), value);
}

/** A share as a bar with its percentage. */
function share(value) {
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  bar.style.width = `${Math.max(1, Math.round(80 * value))}px`;
  return cell(h("span", { class: "share" }, bar, `${(100 * value).toFixed(1)} %`), value);
}

const LISTED = 20; // rows of a long table before "Show all"

/** A table with a search field; make(query) returns builders of rows; tools get a function that fills the table again. */
function searchable(id, noun, heads, make, tools = []) {
  const body = h("tbody");
  const status = h("p", { class: "hint", role: "status", id: `${id}-count` });
  const more = h("button", { type: "button", class: "more-rows", onclick: () => fill(Infinity) });
  const field = h("input", {
    type: "search", id: `${id}-search`, autocomplete: "off", spellcheck: "false", oninput: () => fill(),
  });
  const fill = (most = LISTED) => {
    const rows = make(field.value.trim().toLowerCase());
    body.replaceChildren(...rows.slice(0, most).map((build) => build()));
    status.textContent = count(rows.length, noun) + (rows.length > most ? `, the first ${most} shown` : "");
    more.hidden = rows.length <= most;
    more.textContent = `Show all ${thousands(rows.length)}`;
  };
  const records = () => make("").map((build) => build().values);
  const label = h("label", { for: `${id}-search` }, "Search");
  const search = h("div", { class: "search" }, label, field, tools.map((build) => build(() => fill())));
  fill();
  return [search, status, table(`Table: ${noun}s`, heads, body, { id }, records), more];
}

/**
 * A list of names, long ones folded. Items are names, or { name, note, pale } with a figure after the name and its
 * opacity. Names that match the search come first and are highlighted.
 */
function names(list, most, query = "", comma = ", ") {
  const items = list.map((item) => (typeof item === "string" ? { name: item } : item));
  const hit = ({ name }) => query !== "" && name.toLowerCase().includes(query);
  const sorted = query ? [...items.filter(hit), ...items.filter((item) => !hit(item))] : items;
  const written = (part) => part.flatMap((item, i) => {
    const made = named(item.name, hit(item) ? "mark" : "span");
    if (item.pale !== undefined) made.style.opacity = item.pale;
    return [i ? comma : "", made, item.note ? h("small", {}, `\u00a0${item.note}`) : ""];
  });
  const made = h("span", { class: "names" }, written(sorted.slice(0, most)));
  if (sorted.length > most) {
    const unfold = () => rest.replaceWith(comma, ...written(sorted.slice(most)));
    const text = `and ${thousands(sorted.length - most)} more`;
    const rest = h("button", { type: "button", class: "more", onclick: unfold }, text);
    made.append(" ", rest);
  }
  return cell(made, items.map(({ name }) => name).join("; "));
}

/** A small square in the color of a group. */
function dot(color) {
  const made = h("span", { class: "dot", "aria-hidden": "true" });
  made.style.background = color;
  return made;
}
