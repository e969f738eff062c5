// Streamlit scrolls inside a part of the window and stays where it was when the content changes.

export default function ({ data }) {
  const before = window.skillvizContent;
  window.skillvizContent = data.content;
  if (before !== undefined && before !== data.content) {
    document.querySelector("[data-testid='stMain']")?.scrollTo({ top: 0 });
  }
}
