"use strict";
// Makes the maps of a page answer to pointer, finger and keys.
//
// A map stands in the page as a picture or table (.still) and as data (data-map, see
// map_data.py). Here it becomes a canvas of one pixel a cell, which style.css enlarges, and
// elements over it that style.css places by variables, such as --row. The picture stays
// for print. All words go through textContent, so that no name becomes markup.
const COLUMNS = ["ns", "spread", "otherShare", "otherNs", "relation", "flags", "a", "b"];
const NUMBERED = 28; // CSS pixels of a cell that has room for its number
const LETTER = 6.5; // CSS pixels
const LINE = 9.5; // CSS pixels of a line of labels
const FAINT = "28"; // the opacity, of "ff", of pairs that are not lit
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const LOG_STEPS = 4000; // of the logarithm of a burst

// Return the bytes of deflated base64.
async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// style: declarations of CSS, or none.
function make(tag, className, text = "", style = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  element.style.cssText = style;
  return element;
}

// Make an element beside the rows and one above the columns, at a place.
function makeTwice(className, text, at, style = "") {
  const beside = make("span", className, text, `${style}--row:${at}`);
  return [beside, make("span", `${className} above`, text, `${style}--column:${at}`)];
}

const formatNs = (ns) => ns.toFixed(ns < 1000 ? 1 : 0);
const formatPercent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;

function formatSpread(spread) {
  if (isNaN(spread)) return "";
  return spread <= 1 ? `±${formatPercent(spread, 1)}` : "unsettled";
}

// 0 at the lower end of a scale and below, 1 at the upper end and above.
function placeOnScale(value, [low, high, isLog]) {
  const share = isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.min(Math.max(share, 0), 1);
}

// Turn "#440154" into the number of a pixel: opacity, blue, green, red.
const toPixel = (colour, opacity) => parseInt(colour.replace(/#(..)(..)(..)/, `${opacity}$3$2$1`), 16);

// Move marks to a cell, a [row, column]; hide them if there is none.
function moveMarks(marks, cell) {
  marks.hidden = !cell;
  if (cell) marks.style.cssText = `--row:${cell[0]};--column:${cell[1]}`;
}

class PairMap {
  constructor(figure, about, numbers, bursts) {
    const { dataset } = document.querySelector("main");
    [this.shades, this.inks] = about.colours.map((name) => dataset[name].split(" "));
    Object.assign(this, { figure, about, numbers, bursts, count: about.cpus.length });
    this.told = figure.querySelector(".told");
    this.stack = figure.querySelector(".stack");
    [this.canvas, this.over, this.pointed, this.kept] = this.stack.children;
    this.controls = figure.querySelector("fieldset");
    this.inputs = this.controls.elements;
    this.details = figure.querySelector("details");
    this.held = null; // the pair that others are compared with, as places
    this.lit = ""; // the relation or flag whose pairs stand out
    figure.classList.add("live");
    this.listen();
    this.arrange();
  }

  listen() {
    this.canvas.onpointermove = (event) => this.point(this.locate(event));
    this.canvas.onclick = (event) => this.hold(this.locate(event));
    this.stack.onkeydown = (event) => this.type(event);
    this.controls.oninput = () => this.arrange();
    this.inputs.copy.onclick = () => copyPairs(this);
    this.details.ontoggle = () => tabulateRow(this);
    document.getElementById("common")?.addEventListener("change", () => this.draw());
    addEventListener("resize", () => this.draw());
  }

  // ---- pairs ----

  // Where a pair of places stands in a column, which has an upper triangle.
  index(a, b) {
    const [low, high] = a < b ? [a, b] : [b, a];
    return low * this.count - (low * (low + 1)) / 2 + high - low - 1;
  }

  // Return the numbers and words of a pair, NaN if it was not measured. shown: what it is
  // coloured by.
  read(a, b) {
    const at = this.index(a, b);
    const pairs = (this.count * (this.count - 1)) / 2;
    const pair = {};
    COLUMNS.forEach((name, column) => (pair[name] = a === b ? NaN : this.numbers[column * pairs + at]));
    pair.relation = this.about.relations[pair.relation];
    pair.flags = this.about.flags[pair.flags] ?? {};
    pair.shown = "chance" in pair.flags ? 0 : pair.ns;
    pair.isLit = !this.lit || pair.relation === this.lit || this.lit in pair.flags;
    return pair;
  }

  // Return the bursts of a pair in the order of the run, in ns.
  readBursts(a, b) {
    const { rounds } = this.about;
    const from = this.index(a, b) * rounds;
    const logs = [...this.bursts.subarray(from, from + rounds)].filter((log) => log > 0);
    return logs.map((log) => Math.exp(log / LOG_STEPS));
  }

  nameOf(a, b) {
    const { cpus } = this.about;
    return `${Math.min(cpus[a], cpus[b])}-${Math.max(cpus[a], cpus[b])}`;
  }

  // ---- what is seen ----

  // Put the CPUs that are zoomed to in the order chosen.
  arrange() {
    const { order, zoom } = this.inputs;
    [this.first, this.end] = zoom.value.split(" ").map(Number);
    this.order = this.about.orders[order.value].filter((place) => place >= this.first && place < this.end);
    this.cursor = null; // the [row, column] that is pointed at
    this.draw();
  }

  // Zoom to a group; back to all CPUs if it is seen already.
  zoomTo(group) {
    const { zoom } = this.inputs;
    if (zoom.value === group) zoom.selectedIndex = 0;
    else zoom.value = group;
    this.arrange();
  }

  light(mark) {
    this.lit = this.about.marks.includes(mark) ? mark : "";
    this.draw();
  }

  // The scale that the page shows, its own or the common one of all maps, between the
  // two sliders, which are at shares of it.
  get scale() {
    const { own, common } = this.about.scales;
    const [low, high, isLog] = (document.getElementById("common")?.checked && common) || own;
    const shares = [this.inputs.low, this.inputs.high].map((end) => end.valueAsNumber);
    shares.sort((one, other) => one - other);
    shares[1] = Math.max(shares[1], shares[0] + 0.001);
    const ends = shares.map((share) => (isLog ? low * (high / low) ** share : low + share * (high - low)));
    return [...ends, isLog];
  }

  // ---- pointer and keys ----

  // Return the [row, column] under a pointer.
  locate({ offsetX, offsetY }) {
    const cell = this.canvas.clientWidth / this.order.length;
    return [offsetY, offsetX].map((at) => Math.floor(at / cell));
  }

  // Show a cell, the nearest to a [row, column].
  point(cell) {
    const last = this.order.length - 1;
    this.cursor = cell.map((at) => Math.min(Math.max(at, 0), last));
    this.show();
  }

  show() {
    this.mark();
    if (this.cursor) this.tell();
    this.drawBursts();
    tabulateRow(this);
  }

  // Hold the pair of a cell; let go if it is held.
  hold(cell) {
    this.point(cell);
    const [a, b] = this.cursor.map((at) => this.order[at]);
    if (isNaN(this.read(a, b).ns)) return;
    if (!this.held) this.held = [a, b];
    else if (this.isHeld(a, b)) this.held = null;
    this.point(cell);
  }

  isHeld(a, b) {
    return this.held && this.index(...this.held) === this.index(a, b);
  }

  type(event) {
    const { key } = event;
    if (key in STEPS) this.point((this.cursor ?? [0, 0]).map((at, axis) => at + STEPS[key][axis]));
    else if (this.cursor && [" ", "Enter"].includes(key)) this.hold(this.cursor);
    else if (key === "Escape") this.goBack();
    else return;
    event.preventDefault();
  }

  // Let go of the pair held or, if there is none, show all CPUs.
  goBack() {
    if (this.held) {
      this.held = null;
      this.show();
    } else {
      this.inputs.zoom.selectedIndex = 0;
      this.arrange();
    }
  }

  // ---- words ----

  tell() {
    const [a, b] = this.cursor.map((at) => this.order[at]);
    const lines = a === b ? [] : this.describePair(a, b);
    const where = [...new Set([a, b])].map((end) => make("p", "quiet", this.about.places[end]));
    this.told.replaceChildren(...lines, ...where);
    const { ns } = this.read(a, b);
    for (const needle of this.figure.querySelectorAll(".needle")) {
      needle.hidden = isNaN(ns);
      needle.style.left = formatPercent(placeOnScale(ns, this.scale), 2);
    }
  }

  describePair(a, b) {
    const name = this.nameOf(a, b);
    const { ns, relation, spread, flags, otherShare, otherNs, ...sides } = this.read(a, b);
    if (isNaN(ns)) return [make("p", "", `${name}: not measured`)];
    const first = make("p", "", `${name} ${relation}: `);
    first.append(make("strong", "", `${this.format(ns)} ${formatSpread(spread)}`.trimEnd()));
    if (sides.a) first.append(` relative to its relation (A ${formatNs(sides.a)} ns, B ${formatNs(sides.b)} ns)`);
    if (this.held) first.append(this.compareWithHeld(a, b, ns));
    const lines = Object.entries(flags).map((words) => make("p", "", words.join(": ")));
    if (!isNaN(otherNs)) {
      const other = `${formatPercent(otherShare)} at another level, ${formatNs(otherNs)} ns`;
      lines.unshift(make("p", "", `${formatPercent(1 - otherShare)} of its bursts at this level, ${other}`));
    }
    return [first, ...lines];
  }

  compareWithHeld(a, b, ns) {
    if (this.isHeld(a, b)) return ", held";
    const held = this.read(...this.held).ns;
    const against = ` against ${this.nameOf(...this.held)}, ${this.format(held)}`;
    if (this.about.unit !== "ns") return `,${against}`;
    const sign = ns < held ? "−" : "+";
    const share = formatPercent(Math.abs(ns / held - 1), 1);
    return `, ${sign}${formatNs(Math.abs(ns - held))} ns (${sign}${share})${against}`;
  }

  // Format a number, or a change, with its unit.
  format(value) {
    if (this.about.unit === "ns") return `${formatNs(value)} ns`;
    return `${value > 0 ? "+" : ""}${value.toFixed(1)}%`;
  }

  // ---- picture ----

  draw() {
    if (!this.stack.clientWidth) return; // hidden, as on paper
    const { cpus, labels } = this.about;
    const letters = `${Math.max(...cpus)}`.length * LETTER;
    this.stack.style.cssText = `--letters:${letters}px;--tiers:${labels.length};--count:${this.order.length}`;
    const cell = this.canvas.clientWidth / this.order.length;
    const groups = this.inputs.order.value === "topology" ? this.makeGroups() : [];
    const numbers = cell < NUMBERED ? [] : this.makeNumbers();
    this.over.replaceChildren(...this.makeLabels(cell, letters), ...groups, ...numbers);
    this.paint();
    this.showEnds();
    this.show();
  }

  // Mark the pair that is pointed at, and the one held if it is seen.
  mark() {
    moveMarks(this.pointed, this.cursor);
    const kept = this.held?.map((place) => this.order.indexOf(place));
    moveMarks(this.kept, kept?.includes(-1) ? null : kept);
  }

  paint() {
    const { order, canvas, scale } = this;
    const count = (canvas.width = canvas.height = order.length);
    const context = canvas.getContext("2d");
    const image = context.createImageData(count, count);
    const pixels = new Uint32Array(image.data.buffer);
    const lit = this.shades.map((colour) => toPixel(colour, "ff"));
    const faint = this.shades.map((colour) => toPixel(colour, FAINT));
    for (let row = 0; row < count; row++) {
      for (let column = row + 1; column < count; column++) {
        const pair = this.read(order[row], order[column]);
        const pixel = (pair.isLit ? lit : faint)[this.chooseShade(pair, scale)]; // or none
        pixels[row * count + column] = pixels[column * count + row] = pixel;
      }
    }
    context.putImageData(image, 0, 0);
  }

  chooseShade(pair, scale) {
    return Math.round(placeOnScale(pair.shown, scale) * (this.shades.length - 1));
  }

  // Write the number of every CPU that has room beside the rows and above the columns.
  makeLabels(cell, letters) {
    const step = Math.ceil(LINE / cell);
    this.stack.classList.toggle("upright", letters > cell * step);
    const places = this.order.map((_, at) => at).filter((at) => at % step === 0);
    return places.flatMap((at) => makeTwice("label", this.about.cpus[this.order[at]], at));
  }

  // Make names of the groups seen, which zoom to theirs, and lines between the smallest.
  makeGroups() {
    const { labels } = this.about;
    return labels.flatMap((groups, tier) => {
      let end = 0;
      return groups.flatMap(([name, size]) => {
        const start = end;
        end += size;
        const from = Math.max(start, this.first);
        const seen = Math.min(end, this.end) - from;
        if (seen <= 0) return [];
        const bands = makeTwice("band", name, from - this.first, `--tier:${tier};--size:${seen};`);
        for (const band of bands) band.addEventListener("click", () => this.zoomTo(`${start} ${start + size}`));
        const isSmallest = tier === labels.length - 1;
        return isSmallest ? [...bands, ...makeTwice("line", "", from - this.first)] : bands;
      });
    });
  }

  makeNumbers() {
    const { order, scale } = this;
    const numbers = [];
    order.forEach((a, row) => {
      order.forEach((b, column) => {
        const pair = this.read(a, b);
        if (isNaN(pair.ns) || !pair.isLit) return;
        const style = `--row:${row};--column:${column};color:${this.inks[this.chooseShade(pair, scale)]}`;
        numbers.push(make("span", "number", formatNs(pair.ns), style));
      });
    });
    return numbers;
  }

  // Write the ends of the scale beside the sliders and the colours.
  showEnds() {
    const { low, high } = this.inputs;
    const words = this.scale.slice(0, 2).map((end) => this.format(end));
    [low, high].forEach((slider, at) => slider.setAttribute("aria-valuetext", words[at]));
    for (const legend of this.figure.querySelectorAll(".scale")) {
      legend.querySelectorAll(".end").forEach((end, at) => (end.textContent = words[at]));
    }
  }

  // Draw the bursts of the pair held as dots, from left to right as the run went.
  drawBursts() {
    const place = this.figure.querySelector(".bursts");
    place.replaceChildren();
    if (!this.held || !this.bursts) return;
    const bursts = this.readBursts(...this.held);
    const [low, high] = [Math.min(...bursts), Math.max(...bursts)];
    const dots = bursts.map((ns, at) => {
      const [left, bottom] = [(at + 0.5) / bursts.length, placeOnScale(ns, [low, high])];
      return make("i", "", "", `left:${formatPercent(left, 2)};bottom:${formatPercent(bottom, 2)}`);
    });
    const words = `${this.nameOf(...this.held)}: ${bursts.length} bursts over the run, ${formatNs(low)} to ${formatNs(high)} ns`;
    place.append(make("p", "quiet", words), make("div", ""));
    place.lastChild.append(...dots);
  }
}
