// On a click, Plotly looks up the mark under the mouse. A tap moves no mouse, so Plotly took the mark of the last tap.
// Without Plotly's own touch handling, the browser reports a tap as a click. Areas are still drawn with the finger.

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
