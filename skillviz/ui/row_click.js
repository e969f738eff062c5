// Streamlit's table selects a row only by a click on its box. Other clicks and taps on the row are sent as Shift+Space.
// Selectable cells are no alternative: each arrow key would then open a row.

const [BOX, HEAD] = [32, 2.1875]; // pixels of a row's box, and rem of a table's header, where a click sorts
const KEY = { key: " ", code: "Space", keyCode: 32, shiftKey: true, bubbles: true };

export default function ({ data }) {
  const select = (event) => {
    const table = event.target.closest?.(`.st-key-${data}`);
    const cells = event.target.closest?.(".dvn-scroller"); // the whole table except its toolbar
    if (!table || !cells || event.detail > 1) return;
    const { left, top } = cells.getBoundingClientRect();
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    if (event.clientX - left < BOX || event.clientY - top < HEAD * rem) return;
    setTimeout(() => table.querySelector("canvas")?.dispatchEvent(new KeyboardEvent("keydown", KEY)), 50);
  };
  window.addEventListener("click", select);
  return () => window.removeEventListener("click", select);
}
