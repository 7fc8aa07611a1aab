// Shell: the heading and the foot of the page, the theme, and printing.

const OFFLINE = "This file loads nothing and sends nothing.";

function heading(nouns) {
  const { version } = report.made;
  const sizes = report.facts.filter(({ name }) => nouns.includes(name));
  const words = ({ name, value }) => `${value} ${value === "1" ? name.toLowerCase().slice(0, -1) : name.toLowerCase()}`;
  document.getElementById("title").textContent = report.title;
  document.getElementById("brand-note").textContent = version;
  document.getElementById("lead").textContent = `${sizes.map(words).join(", ")}. ${report.estimator}.`;
  document.getElementById("foot").textContent = `Made by blockmix ${version}. ${OFFLINE}`;
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
