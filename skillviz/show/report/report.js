// Draws every figure in the reader's own theme, anew when that changes, and in ink on white for paper.

const figures = JSON.parse(document.getElementById("figures").textContent);
const isDark = matchMedia("(prefers-color-scheme: dark)");
const settings = { displaylogo: false, responsive: true, toImageButtonOptions: { scale: 2 } };
const PAPER = 660; // pixels between the margins of a sheet

function draw(theme, width) {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const { data, layout } = structuredClone(figures[Number(place.dataset.figure)][theme]);
    Plotly.react(place, data, { ...layout, width, autosize: width === undefined }, settings);
  }
}

const drawForScreen = () => draw(isDark.matches ? "dark" : "light");

isDark.addEventListener("change", drawForScreen);
addEventListener("beforeprint", () => draw("light", PAPER));
addEventListener("afterprint", drawForScreen);
drawForScreen();
