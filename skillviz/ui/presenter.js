// Tells the app how high the window is, and how large its type, so that a figure fills the room that is left for it.

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
  measure();
  window.addEventListener("resize", later);
  return () => {
    clearTimeout(timer);
    window.removeEventListener("resize", later);
  };
}
