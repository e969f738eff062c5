// Reports the window's height and type size to the app, so that a figure fills the remaining space; and prevents Esc
// from leaving the mode if it closes a list.

const CALM = 250; // milliseconds without a change of the window

export default function ({ data, setStateValue }) {
  const measure = () => {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const isNew = Math.abs(window.innerHeight - data.height) > 1 || Math.abs(rem - data.rem) > 0.1;
    if (isNew) setStateValue("window", { height: window.innerHeight, rem });
  };
  let timer;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(measure, CALM);
  };
  // The list is closed before the key event reaches the page, where Streamlit listens for the shortcut.
  let isListOpen = false;
  const look = (event) => {
    if (event.key === "Escape") isListOpen = document.querySelector('[role="listbox"], [role="menu"]') !== null;
  };
  const keep = (event) => {
    if (event.key === "Escape" && isListOpen) event.stopPropagation();
  };
  measure();
  window.addEventListener("resize", later);
  window.addEventListener("keydown", look, true);
  document.body.addEventListener("keydown", keep);
  return () => {
    clearTimeout(timer);
    window.removeEventListener("resize", later);
    window.removeEventListener("keydown", look, true);
    document.body.removeEventListener("keydown", keep);
  };
}
