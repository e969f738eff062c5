// Streamlit adds an entry to the browser's history for every change of the address. Only user actions should add one:
// an address that the app completes by itself, without a click or key since the last entry, replaces the current entry.

const ACTS = ["pointerdown", "keydown"];

export default function () {
  if (window.skillvizHistory) return;
  window.skillvizHistory = true;
  let acted = false;
  const push = window.history.pushState.bind(window.history);
  const replace = window.history.replaceState.bind(window.history);
  window.history.pushState = (state, unused, url) => {
    (acted ? push : replace)(state, unused, url);
    acted = false;
  };
  for (const act of ACTS) window.addEventListener(act, () => (acted = true), { capture: true });
  window.addEventListener("popstate", () => (acted = false), { capture: true });
}
