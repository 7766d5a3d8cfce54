// What stands beside the maps of a page (map.js): the order of their CPUs, a copy, a table
// of a CPU's pairs, and relations and warnings that light their pairs.

// Return the cells of the lit pairs of a CPU with others, without those not measured.
function listPairs(map, a, others) {
  const { cpus } = map.about;
  const measured = others.filter((b) => !isNaN(map.read(a, b).ns));
  return measured.map((b) => {
    const { ns, spread, relation, flags } = map.read(a, b);
    return [cpus[a], cpus[b], relation, ns.toFixed(2), formatSpread(spread), Object.keys(flags).join(" ")];
  });
}

const listTitles = (map) => ["CPU", "other", "relation", map.about.unit, "±95%", "flags"];

// Copy the lit pairs that are seen, CPUs in their order. An event of our own needs no
// permission, which a file does not have.
function copyPairs(map) {
  const lines = map.order.flatMap((a, row) => {
    const lit = map.order.slice(row + 1).filter((b) => map.read(a, b).isLit);
    return listPairs(map, a, lit);
  });
  const fill = (event) => {
    event.clipboardData.setData("text/plain", [listTitles(map), ...lines].join("\n"));
    event.preventDefault();
  };
  document.addEventListener("copy", fill, { once: true });
  document.execCommand("copy");
  map.inputs.copy.textContent = `Copied ${lines.length} pairs as CSV`;
}

// Fill the table of the CPU whose row is pointed at, or else of the first.
function tabulateRow(map) {
  const { details } = map;
  if (!details.open) return;
  const a = map.order[map.cursor?.[0] ?? 0];
  const table = make("table", "");
  table.createCaption().textContent = map.about.places[a];
  for (const words of [listTitles(map), ...listPairs(map, a, map.order)]) {
    const isHead = !table.rows.length;
    table.insertRow().append(...words.map((word, at) => make(isHead || at === 0 ? "th" : "td", "", word)));
  }
  details.replaceChildren(details.firstElementChild, table);
}

// Make a relation of a table or the name of a warning a button that lights its pairs
// in the maps of its section, or of the page where its section has none.
function addLight(place, maps) {
  const section = place.closest("section");
  const own = maps.filter((map) => section.contains(map.stack));
  const lit = own.length ? own : maps;
  const button = make("button", "light", place.textContent);
  button.ariaPressed = "false";
  button.onclick = () => {
    const isOn = button.ariaPressed === "false";
    for (const other of document.querySelectorAll(".light")) other.ariaPressed = "false";
    button.ariaPressed = isOn;
    for (const map of maps) map.light(isOn && lit.includes(map) ? place.dataset.light : "");
  };
  place.replaceChildren(button);
}

async function enliven(figure) {
  const about = JSON.parse(figure.dataset.map);
  const numbers = new Float32Array(await inflate(about.pairs));
  const bursts = about.bursts && new Uint16Array(await inflate(about.bursts));
  const map = new PairMap(figure, about, numbers, bursts);
  delete figure.dataset.map;
  return map;
}

async function start() {
  const maps = await Promise.all([...document.querySelectorAll("[data-map]")].map(enliven));
  for (const place of document.querySelectorAll("[data-light]")) {
    if (maps.some((map) => map.about.marks.includes(place.dataset.light))) addLight(place, maps);
  }
}

start();
