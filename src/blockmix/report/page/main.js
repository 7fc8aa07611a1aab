// The page: its sections in order, the theme, and printing.

const WITHOUT_ROWS = "This page was written without the data, so it has no checkerboard and no observed correlations. "
  + "To include them, use write_report(model, path, X) or blockmix report MODEL FILE.";
const CORRELATIONS = "Which columns vary together. Blue is negative, red is positive, and frames are column groups. "
  + "Estimated correlations are zero between groups. The slider cuts the tree into another number of groups.";
const OFFLINE = "This file loads nothing and sends nothing.";

function page() {
  const { version } = report.made;
  const sizes = report.facts.filter(({ name }) => ["Rows", "Columns", "Components"].includes(name));
  const words = ({ name, value }) => `${value} ${value === "1" ? name.toLowerCase().slice(0, -1) : name.toLowerCase()}`;
  const lead = sizes.map(words).join(", ");
  document.getElementById("title").textContent = report.title;
  document.getElementById("brand-note").textContent = version;
  document.getElementById("lead").textContent = `${lead}. ${report.estimator}.`;
  document.getElementById("foot").textContent = `Made by blockmix ${version}. ${OFFLINE}`;
  overview();
  const missing = h("p", { class: "note", id: "without-rows" }, WITHOUT_ROWS);
  if (!report.hasRows) document.getElementById("main").append(missing);
  if (report.checkerboard) checkerboard(report.checkerboard);
  section("components", report.isMixture ? "Correlations" : "Correlation", h("p", {}, CORRELATIONS),
    report.views.map((view, index) => new ComponentPanel(view, index).element));
  biclusters();
  moves();
  made();
}

function themes() {
  const button = document.getElementById("theme");
  const other = () => (theme() === "dark" ? "light" : "dark");
  const show = () => {
    button.textContent = other() === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Switch to ${other()} colors`);
    redrawAll();
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = other();
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  // Print in light colors and at a higher resolution.
  const print = (on) => {
    printing = on;
    redrawAll();
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
  show();
}

page();
themes();
