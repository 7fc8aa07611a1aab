// Groups: the columns of each group, with loadings, stability and a button that copies them.

const LISTED_GROUPS = 20; // of more groups the smallest are folded

/** Correlation of a column with the common factor of its group; null if there is none. */
function loading(g, column) {
  return report.loadings?.[Math.min(g, report.loadings.length - 1)]?.[column] ?? null;
}

/** Fitted columns of a group for `names`: by the size of their loadings, paler the less they stay in resamples. */
function loaded(g, columns) {
  const stays = report.stability?.columns[Math.min(g, report.stability.columns.length - 1)];
  const size = (column) => Math.abs(loading(g, column) ?? 0);
  return [...columns].sort((a, b) => size(b) - size(a)).map((column) => ({
    name: columnName(column),
    note: loading(g, column) === null ? "" : signed(loading(g, column)),
    pale: stays && columns.length > 1 ? 0.5 + 0.5 * stays[column] : undefined,
  }));
}

/**
 * List of the groups, largest first, with single columns together at the end; the smallest of many are folded.
 * Fitted groups of component g have loadings and stability; other groups are cuts of the tree, g is null.
 */
function groupList(labels, colorOf, g) {
  const groups = groupsOf(labels).map((columns, label) => ({ columns, label }));
  const together = groups.filter(({ columns }) => columns.length > 1);
  const alone = groups.filter(({ columns }) => columns.length === 1).map(({ columns }) => columns[0]);
  const most = labels.length > 60 ? 9 : 40;
  const line = (head, columns, color, words, word) => h("li", {}, dot(color), h("b", {}, head, ` · ${columns.length}`), verdict(word), " ",
    names(g === null ? columns.map(columnName) : loaded(g, columns), most).shown, " ",
    copyButton((head.textContent ?? head).toLowerCase(), () => columns.map(columnName).join("\n")),
    words ? h("small", { class: "words" }, words) : null);
  const stable = g === null ? null : report.stability?.groups[g];
  const head = ({ columns, label }) => (g === null ? `Group ${label + 1}` : called(`group ${report.families[g][columns[0]] + 1}`));
  const lines = (part) => part.map((group) =>
    line(head(group), group.columns, colorOf(group.label), stable?.[group.label]?.words, stable?.[group.label]?.verdict));
  const list = h("ul", { "aria-label": "Groups" }, lines(together.slice(0, LISTED_GROUPS)),
    alone.length ? line("Alone", alone, ink("faint")) : null);
  const rest = together.slice(LISTED_GROUPS);
  if (!rest.length) return [list];
  const unfold = () => {
    list.children[LISTED_GROUPS - 1].after(...lines(rest));
    button.remove();
  };
  const [least, largest] = [rest.at(-1).columns.length, rest[0].columns.length];
  const sizes = least === largest ? `${least} columns` : `${least} to ${largest} columns`;
  const text = `and ${count(rest.length, "more group")} of ${sizes}`;
  const button = h("button", { type: "button", class: "more", onclick: unfold }, text);
  return [list, button];
}
