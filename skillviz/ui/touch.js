// Plotly asks a mouse which mark was clicked. A tap has none, so it took the mark of the tap before. Without Plotly's own
// handling of touches the browser tells it of a tap as of a click. An area is still drawn with the finger.

const AREAS = ["select", "lasso"];

export default function () {
  if (window.skillvizTouch) return;
  window.skillvizTouch = true;
  const leave = (event) => {
    const plot = event.target.closest?.(".js-plotly-plot");
    if (plot && !AREAS.includes(plot._fullLayout?.dragmode)) event.stopImmediatePropagation();
  };
  window.addEventListener("touchstart", leave, { capture: true, passive: true });
}
