// Copies the address of the present view. If the browser denies access to the clipboard, the address is selected in a
// box, to be copied by hand.

const SHORT = 2500; // milliseconds

// The address, with the defaults that a link includes (`copy_link.include`).
function link() {
  const url = new URL(window.location.href);
  for (const { dataset } of document.querySelectorAll(".copied-too")) {
    if (!url.searchParams.has(dataset.name)) url.searchParams.set(dataset.name, dataset.value);
  }
  return url.href;
}

export default function ({ parentElement }) {
  const [button, status] = [parentElement.querySelector("button"), parentElement.querySelector("[role=status]")];
  button.onclick = async () => {
    const box = parentElement.querySelector("input");
    box.value = link();
    try {
      await navigator.clipboard.writeText(box.value);
      status.textContent = "Copied";
    } catch {
      box.hidden = false;
      box.select();
      status.textContent = "Press Ctrl+C";
    }
    setTimeout(() => {
      status.textContent = "";
    }, SHORT);
  };
}
