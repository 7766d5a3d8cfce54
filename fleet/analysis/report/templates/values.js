// Shows the value nearest to the pointer, or the next one by arrow keys, in plots. Their
// data-values has [x, y, words] of each mark, in the units of the picture.

function addValues(svg) {
  const values = JSON.parse(svg.dataset.values);
  const words = make("p", "quiet value");
  words.ariaLive = "polite";
  const mark = document.createElementNS(svg.namespaceURI, "circle");
  mark.setAttribute("class", "value");
  svg.append(mark);
  svg.after(words);
  svg.tabIndex = 0;
  let shown = -1;

  function show(at) {
    const [x, y, text] = values[at];
    shown = at;
    words.textContent = text;
    mark.setAttribute("r", 6);
    mark.setAttribute("transform", `translate(${x} ${y})`);
  }

  function point({ clientX, clientY }) {
    const { left, top, width } = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / width;
    const distances = values.map(([x, y]) => Math.hypot(x - (clientX - left) * scale, y - (clientY - top) * scale));
    show(distances.indexOf(Math.min(...distances)));
  }

  svg.onpointermove = svg.onpointerdown = point;
  svg.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    show(Math.min(Math.max(shown + step, 0), values.length - 1));
    event.preventDefault();
  };
}

document.querySelectorAll(":not(a) > svg[data-values]").forEach(addValues);
