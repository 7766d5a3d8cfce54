"use strict";
// Makes the maps of a page answer to pointer, finger and keys.
//
// A map stands in the page as a picture or table (.still) and as data (data-map, see
// map_data.py). Here it becomes a canvas; the picture stays for print. All that is
// written goes through textContent, so that no name becomes markup.
// Backgrounds and inks of maps of numbers, and of changes, by the unit of the map.
const { shades, inks, changeShades = "", changeInks = "" } = document.querySelector("main").dataset;
const SHADES = { ns: shades.split(" "), "%": changeShades.split(" ") };
const INKS = { ns: inks.split(" "), "%": changeInks.split(" ") };
const LAST_SHADE = SHADES.ns.length - 1;
const COLUMNS = ["ns", "spread", "otherShare", "otherNs", "relation", "flags", "a", "b"];
const CELL = 32; // CSS pixels of a cell, at most
const SIDE = 640; // CSS pixels of a larger map
const NUMBERED = 28; // CSS pixels of a cell that has room for its number
const LETTER = 6.5; // CSS pixels
const TIER = 16; // CSS pixels of a line of names of groups
const LINE = 9.5; // CSS pixels of a line of labels
const FAINT = 40; // of 255, the opacity of pairs that are not lit
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// Return an object of an array for each column: base64, deflated, of float32.
async function decodePairs(text, cpus) {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) packed[at] = letters.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const numbers = new Float32Array(await new Response(stream).arrayBuffer());
  const count = (cpus * (cpus - 1)) / 2;
  const cut = (name, at) => [name, numbers.subarray(at * count, (at + 1) * count)];
  return Object.fromEntries(COLUMNS.map(cut));
}

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

const formatNs = (ns) => (ns < 1000 ? ns.toFixed(1) : ns.toFixed(0));
const formatPercent = (share, digits) => `${(100 * share).toFixed(digits)}%`;

function formatSpread(spread) {
  if (isNaN(spread)) return "";
  return spread <= 1 ? `±${formatPercent(spread, 1)}` : "unsettled";
}

// 0 at the lower end of a scale and below, 1 at the upper end and above.
function placeOnScale(ns, [low, high, isLog]) {
  const share = isLog ? Math.log(ns / low) / Math.log(high / low) : (ns - low) / (high - low);
  return Math.min(Math.max(share, 0), 1);
}

function chooseShade(ns, scale) {
  return Math.floor(placeOnScale(ns, scale) * LAST_SHADE + 0.5);
}

function describeLevels(pair) {
  if (isNaN(pair.otherNs)) return [];
  const other = `${formatPercent(pair.otherShare, 0)} at another level, ${formatNs(pair.otherNs)} ns`;
  return [make("p", "", `${formatPercent(1 - pair.otherShare, 0)} of its bursts at this level, ${other}`)];
}

class PairMap {
  constructor(figure, about, columns) {
    Object.assign(this, { about, columns, count: about.cpus.length });
    this.told = figure.querySelector(".told");
    this.stack = figure.querySelector(".stack");
    [this.base, this.marks] = this.stack.children;
    this.needles = figure.querySelectorAll(".needle");
    this.order = about.cpus.map((_, place) => place); // places in the rows as drawn
    this.cursor = null; // [row, column] that is pointed at
    this.held = null; // the pair that others are compared with, as places
    this.isGrouped = true; // whether groups of the topology stand together
    this.lit = ""; // the relation or flag whose pairs stand out
    figure.classList.add("live");
    this.listen();
    this.draw();
  }

  listen() {
    this.stack.addEventListener("pointermove", (event) => this.point(this.locate(event)));
    this.stack.addEventListener("click", (event) => this.point(this.locate(event)) && this.hold());
    this.stack.addEventListener("keydown", (event) => this.type(event));
    addEventListener("resize", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    document.getElementById("common")?.addEventListener("change", () => this.draw());
  }

  // The scale that the page shows: its own, or the common one of all maps.
  get scale() {
    const isCommon = document.getElementById("common")?.checked;
    return isCommon ? this.about.scales.common : this.about.scales.own;
  }

  // Where a pair of places stands in the arrays, which have an upper triangle.
  index(a, b) {
    const [low, high] = a < b ? [a, b] : [b, a];
    return low * this.count - (low * (low + 1)) / 2 + high - low - 1;
  }

  // Return the value that a cell is coloured by: of no change beyond chance, none.
  value(at) {
    const isChance = "chance" in (this.about.flags[this.columns.flags[at]] ?? {});
    return isChance ? 0 : this.columns.ns[at];
  }

  // Format a number, or a change, with its unit.
  format(value) {
    if (this.about.unit === "ns") return `${formatNs(value)} ns`;
    return `${value > 0 ? "+" : ""}${value.toFixed(1)}%`;
  }

  // Return the number of a pair, NaN if it was not measured.
  ns(a, b) {
    return a === b ? NaN : this.columns.ns[this.index(a, b)];
  }

  // Return the [row, column] under a pointer, or null.
  locate(event) {
    const { left, top } = this.stack.getBoundingClientRect();
    const row = Math.floor((event.clientY - top - this.margin) / this.cell);
    const column = Math.floor((event.clientX - left - this.margin) / this.cell);
    const isInside = Math.min(row, column) >= 0 && Math.max(row, column) < this.count;
    return isInside ? [row, column] : null;
  }

  isLit(at) {
    if (!this.lit) return true;
    const { relations, flags } = this.about;
    const own = [relations[this.columns.relation[at]], ...Object.keys(flags[this.columns.flags[at]] ?? {})];
    return own.includes(this.lit);
  }

  light(mark) {
    this.lit = this.about.marks.includes(mark) ? mark : "";
    this.draw();
  }

  arrange(order, isGrouped) {
    Object.assign(this, { order, isGrouped, cursor: null });
    this.draw();
  }

  point(cell) {
    if (!cell) return false;
    this.cursor = cell;
    this.drawMarks();
    this.tell();
    this.stack.dispatchEvent(new Event("point"));
    return true;
  }

  // Hold the pair that is pointed at; let go if it is held.
  hold() {
    const [a, b] = this.cursor.map((at) => this.order[at]);
    if (isNaN(this.ns(a, b))) return;
    if (!this.held) this.held = [a, b];
    else if (this.index(...this.held) === this.index(a, b)) this.held = null;
    this.point(this.cursor);
  }

  type(event) {
    const step = STEPS[event.key];
    const last = this.count - 1;
    if (step) {
      const from = this.cursor ?? [0, 0];
      this.point(from.map((at, axis) => Math.min(Math.max(at + step[axis], 0), last)));
    } else if (this.cursor && [" ", "Enter"].includes(event.key)) this.hold();
    else if (this.held && event.key === "Escape") {
      this.held = null;
      this.point(this.cursor);
    } else return;
    event.preventDefault();
  }

  // ---- words ----

  tell() {
    const [a, b] = this.cursor.map((at) => this.order[at]);
    const lines = a === b ? [] : this.describePair(a, b);
    const where = [...new Set([a, b])].map((end) => make("p", "quiet", this.about.places[end]));
    this.told.replaceChildren(...lines, ...where);
    const ns = this.ns(a, b);
    for (const needle of this.needles) {
      needle.hidden = isNaN(ns);
      needle.style.left = formatPercent(placeOnScale(ns, this.scale), 2);
    }
  }

  describePair(a, b) {
    const name = this.namePair(a, b);
    if (isNaN(this.ns(a, b))) return [make("p", "", `${name}: not measured`)];
    const pair = this.read(a, b);
    const number = `${this.format(pair.ns)} ${formatSpread(pair.spread)}`;
    const first = make("p", "", `${name} ${pair.relation}: `);
    const sides = pair.a ? ` relative to its relation (A ${formatNs(pair.a)} ns, B ${formatNs(pair.b)} ns)` : "";
    first.append(make("strong", "", number.trimEnd()), sides, this.compareWithHeld(a, b, pair.ns));
    const flags = Object.entries(pair.flags).map((words) => make("p", "", words.join(": ")));
    return [first, ...describeLevels(pair), ...flags];
  }

  namePair(a, b) {
    const [low, high] = [a, b].map((place) => this.about.cpus[place]).sort((one, other) => one - other);
    return `${low}-${high}`;
  }

  // Return the numbers and words of a pair.
  read(a, b) {
    const at = this.index(a, b);
    const pair = Object.fromEntries(COLUMNS.map((name) => [name, this.columns[name][at]]));
    pair.relation = this.about.relations[pair.relation];
    pair.flags = this.about.flags[pair.flags];
    return pair;
  }

  compareWithHeld(a, b, ns) {
    if (!this.held) return "";
    const name = this.namePair(...this.held);
    if (this.index(...this.held) === this.index(a, b)) return `, held`;
    const other = this.ns(...this.held);
    const sign = ns < other ? "−" : "+";
    const share = formatPercent(Math.abs(ns / other - 1), 1);
    const far = `, ${sign}${formatNs(Math.abs(ns - other))} ns (${sign}${share})`;
    return `${this.about.unit === "ns" ? far : ","} against ${name}, ${this.format(other)}`;
  }

  // ---- picture ----

  draw() {
    if (!this.stack.clientWidth) return; // hidden, as on paper
    this.measure();
    const context = this.prepare(this.base);
    const side = this.cell * this.count;
    context.save();
    context.fillStyle = getComputedStyle(this.stack).getPropertyValue("--ground");
    context.fillRect(this.margin, this.margin, side, side);
    context.restore();
    context.drawImage(this.paintCells(), this.margin, this.margin, side, side);
    this.drawLabels(context);
    if (this.isGrouped) this.drawGroups(context);
    if (this.cell >= NUMBERED) this.drawNumbers(context);
    this.drawMarks();
  }

  // Choose the sizes that the window has room for.
  measure() {
    const longest = Math.max(...this.about.cpus).toString().length * LETTER;
    this.beside = longest + 8;
    this.margin = this.beside + TIER * this.about.labels.length;
    const wanted = this.margin + Math.min(CELL * this.count, Math.max(SIDE, this.count));
    this.stack.style.width = `${wanted}px`;
    this.stack.dataset.margin = this.margin;
    this.cell = (this.stack.clientWidth - this.margin) / this.count;
    this.stack.style.height = `${this.stack.clientWidth}px`;
  }

  // Clear a canvas and make its unit a CSS pixel; return its context.
  prepare(canvas) {
    const scale = devicePixelRatio;
    canvas.width = canvas.height = Math.round(this.stack.clientWidth * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(this.stack);
    context.font = `9.5px ${style.fontFamily}`;
    context.fillStyle = context.strokeStyle = style.color;
    context.textBaseline = "middle";
    context.imageSmoothingEnabled = false;
    return context;
  }

  // Return a canvas of a pixel a cell.
  paintCells() {
    const canvas = make("canvas", "");
    canvas.width = canvas.height = this.count;
    const context = canvas.getContext("2d");
    const image = context.createImageData(this.count, this.count);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = SHADES[this.about.unit].map(toPixel);
    const scale = this.scale;
    for (let row = 0; row < this.count; row++) {
      for (let column = row + 1; column < this.count; column++) {
        const at = this.index(this.order[row], this.order[column]);
        const ns = this.value(at);
        if (isNaN(ns)) continue;
        const alpha = this.isLit(at) ? 255 : FAINT;
        const pixel = colours[chooseShade(ns, scale)] | (alpha << 24);
        pixels[row * this.count + column] = pixel;
        pixels[column * this.count + row] = pixel;
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  // Write the number of every CPU that has room beside the rows and above the columns.
  drawLabels(context) {
    const step = Math.ceil(LINE / this.cell);
    const isUpright = this.beside - 6 > this.cell * step;
    for (let at = 0; at < this.count; at += step) {
      const label = this.about.cpus[this.order[at]];
      const middle = this.margin + (at + 0.5) * this.cell;
      const near = this.margin - 4;
      write(context, label, near, middle, "right");
      if (isUpright) write(context, label, middle, near, "left", true);
      else write(context, label, middle, near - 4, "center");
    }
  }

  drawGroups(context) {
    [...this.about.labels].reverse().forEach((groups, tier) => {
      const line = this.margin - this.beside - TIER * tier;
      let first = this.margin;
      for (const [name, count] of groups) {
        const end = first + count * this.cell;
        const middle = (first + end) / 2;
        context.fillRect(first + 1, line, end - first - 2, 1);
        context.fillRect(line, first + 1, 1, end - first - 2);
        if (name.length * LETTER < end - first) {
          write(context, name, middle, line - 8, "center");
          write(context, name, line - 8, middle, "center", true);
        }
        first = end;
      }
    });
    this.drawBorders(context);
  }

  drawBorders(context) {
    const end = this.margin + this.cell * this.count;
    context.fillStyle = getComputedStyle(this.stack).backgroundColor;
    for (const place of this.about.borders) {
      const at = this.margin + place * this.cell - 0.75;
      context.fillRect(at, this.margin, 1.5, end - this.margin);
      context.fillRect(this.margin, at, end - this.margin, 1.5);
    }
  }

  drawNumbers(context) {
    for (let row = 0; row < this.count; row++) {
      for (let column = 0; column < this.count; column++) {
        const [a, b] = [this.order[row], this.order[column]];
        const ns = this.ns(a, b);
        if (isNaN(ns) || !this.isLit(this.index(a, b))) continue;
        const shown = this.value(this.index(a, b));
        context.fillStyle = INKS[this.about.unit][chooseShade(shown, this.scale)];
        const [x, y] = [column, row].map((at) => this.margin + (at + 0.5) * this.cell);
        write(context, formatNs(ns), x, y, "center");
      }
    }
  }

  // Draw the cross-hair, and frames around the pair held and the one pointed at.
  drawMarks() {
    const context = this.prepare(this.marks);
    const side = this.cell * this.count;
    const place = (at) => this.margin + at * this.cell;
    if (this.cursor) {
      const [row, column] = this.cursor.map(place);
      context.globalAlpha = 0.6;
      strokeTwice(context, this.margin, row, side, this.cell);
      strokeTwice(context, column, this.margin, this.cell, side);
      context.globalAlpha = 1;
      strokeTwice(context, column, row, this.cell, this.cell);
    }
    if (this.held) {
      const [row, column] = this.held.map((cpu) => place(this.order.indexOf(cpu)));
      strokeTwice(context, column, row, this.cell, this.cell);
      strokeTwice(context, row, column, this.cell, this.cell);
    }
  }
}

// Turn "#440154" into red, green, blue as the bytes of a pixel, the lowest first.
function toPixel(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return red | (green << 8) | (blue << 16);
}

function write(context, text, x, y, align, isUpright = false) {
  context.save();
  context.translate(x, y);
  if (isUpright) context.rotate(-Math.PI / 2);
  context.textAlign = align;
  context.fillText(text, 0, 0);
  context.restore();
}

// Stroke a frame that is seen on every colour: white around black.
function strokeTwice(context, x, y, width, height) {
  context.strokeStyle = "#fff";
  context.strokeRect(x - 1, y - 1, width + 2, height + 2);
  context.strokeStyle = "#000";
  context.strokeRect(x, y, width, height);
}

async function enliven(figure) {
  const about = JSON.parse(figure.dataset.map);
  const columns = await decodePairs(about.pairs, about.cpus.length);
  const map = new PairMap(figure, about, columns);
  delete figure.dataset.map;
  return map;
}
