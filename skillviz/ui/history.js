// Streamlit makes an entry in the browser's history of every change of the address. Only what a reader does should:
// an address that the app completes by itself, without a click or a key since the last entry, replaces the present one.

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
