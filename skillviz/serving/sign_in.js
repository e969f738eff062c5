// A user who follows a link and has to sign in returns to the first page, because the provider knows only one address.
// The sign-in page keeps the link in this tab, and the first page after sign-in opens it.

const KEY = "skillviz.linked";

export default function ({ data }) {
  const { origin, pathname, search, hash } = window.location;
  if (data.waits) {
    window.sessionStorage.setItem(KEY, pathname + search + hash);
    return;
  }
  const linked = window.sessionStorage.getItem(KEY);
  window.sessionStorage.removeItem(KEY);
  if (!linked) return;
  const opened = new URL(performance.getEntriesByType("navigation")[0].name); // before the app changed the address
  const isFirst = opened.pathname === new URL(".", origin + linked).pathname && !opened.search;
  if (isFirst && linked !== opened.pathname) window.location.replace(origin + linked);
}
