// The page: its parts in order, the theme, and paper.

function page() {
  document.getElementById("title").textContent = report.title;
  document.getElementById("brand-note").textContent = report.made.version;
  const parts = report.facts.filter(({ name }) => ["Rows", "Columns", "Components"].includes(name)).map(({ name, value }) => `${value} ${name.toLowerCase()}`);
  document.getElementById("lead").textContent = `${parts.join(", ")}. ${report.estimator}.`;
  overview();
  if (!report.hasRows) {
    document.getElementById("main").append(h("p", { class: "note", id: "without-rows" },
      "This page was made without the data, so it has no picture of them and no observed correlations. Give the data to have them: write_report(model, path, X), or blockmix report MODEL FILE."));
  }
  if (report.checkerboard) checkerboard(report.checkerboard);
  section("components", report.isMixture ? "Correlations" : "Correlation",
    h("p", {}, "Which columns move together. Blue is negative, red positive; a frame is a column group. The estimated correlation is zero between groups. The slider cuts the tree at another number of groups."),
    report.views.map((view, index) => new ComponentPanel(view, index).element));
  biclusters();
  moves();
  made();
  document.getElementById("foot").textContent = `Made by blockmix ${report.made.version}. One file: nothing is fetched, nothing is sent.`;
}

function themes() {
  const button = document.getElementById("theme");
  const show = () => {
    button.setAttribute("aria-pressed", String(theme() === "dark"));
    redrawAll();
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  // On paper everything is drawn in the light colors, and sharp.
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
