// Saves the chart of this card as a picture. plotly.js, which drew it, is on the page already: nothing is fetched.

const SORRY = "No picture could be made here. The camera that appears over the chart saves a PNG.";

export default function ({ data, parentElement }) {
  const status = parentElement.querySelector("[role=status]");
  for (const button of parentElement.querySelectorAll("button")) {
    button.onclick = async () => {
      status.textContent = await save(button.value, data).catch(() => SORRY);
    };
  }
}

async function save(format, { chart, file, ground }) {
  const drawn = document.querySelector(`.${CSS.escape(chart)} .js-plotly-plot`);
  const picture = { data: drawn.data, layout: { ...drawn.layout, paper_bgcolor: ground } };
  const size = { width: drawn.clientWidth, height: drawn.clientHeight };
  const url = await window.Plotly.toImage(picture, { format, ...size, scale: format === "png" ? 2 : 1 });
  const link = Object.assign(document.createElement("a"), { href: url, download: `${file}.${format}` });
  link.click();
  return `${file}.${format} is saved, as large as the chart is now.`;
}
