// Streamlit adds an entry to the browser's history for every change of the address. Only user actions should add one:
// an address that the app completes by itself, without a click or key since the last entry, replaces the current entry.
// Streamlit does not know the choices that are made in the browser alone (linked_map.js), so they are put in here.

const ACTS = ["pointerdown", "keydown"];

export default function () {
  if (window.skillvizHistory) return;
  window.skillvizHistory = true;
  let acted = false;
  const push = window.history.pushState.bind(window.history);
  const replace = window.history.replaceState.bind(window.history);
  const choices = (window.skillvizChoices ??= {}); // by name in the address: the page's path, and the value
  const completed = (url) => {
    const whole = new URL(url ?? window.location.href, window.location.href);
    for (const [name, { path, value }] of Object.entries(choices)) {
      if (path === whole.pathname && value) whole.searchParams.set(name, value);
      else if (path === whole.pathname) whole.searchParams.delete(name);
    }
    return whole.href;
  };
  window.history.pushState = (state, unused, url) => {
    (acted ? push : replace)(state, unused, completed(url));
    acted = false;
  };
  for (const act of ACTS) window.addEventListener(act, () => (acted = true), { capture: true });
  window.addEventListener("popstate", () => (acted = false), { capture: true });
}
