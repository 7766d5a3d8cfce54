// What stands beside the maps of a page (map.js): the order of their CPUs, a copy, a table
// of a CPU's pairs, and relations and warnings that light their pairs.


// The places of CPUs in each order.
const ORDERS = {
  topology: ({ about }) => about.cpus.map((_, place) => place),
  number: (map) => ORDERS.topology(map).sort((a, b) => map.about.cpus[a] - map.about.cpus[b]),
  latency: orderByLatency,
};

// Put each CPU beside the nearest that has no place yet, so that groups come together.
function orderByLatency(map) {
  const rest = new Set(ORDERS.topology(map));
  const order = [];
  for (let last = 0; last !== null; ) {
    order.push(last);
    rest.delete(last);
    let nearest = null;
    for (const place of rest) {
      if (nearest === null || map.ns(last, place) < map.ns(last, nearest)) nearest = place;
    }
    last = nearest;
  }
  return order;
}

// Return the cells of the pairs of a CPU with others, without those not measured.
function listPairs(map, a, others) {
  const measured = others.filter((b) => !isNaN(map.ns(a, b)));
  return measured.map((b) => {
    const { ns, spread, relation, flags } = map.read(a, b);
    const { cpus } = map.about;
    return [cpus[a], cpus[b], relation, ns.toFixed(2), formatSpread(spread), Object.keys(flags).join(" ")];
  });
}

const listTitles = (map) => ["CPU", "other", "relation", map.about.unit, "±95%", "flags"];

// Copy the lit pairs, CPUs in the order shown. An event of our own needs no permission,
// which a file does not have.
function copyPairs(map, button) {
  const lines = map.order.flatMap((a, row) => {
    const lit = map.order.slice(row + 1).filter((b) => map.isLit(map.index(a, b)));
    return listPairs(map, a, lit);
  });
  const fill = (event) => {
    event.clipboardData.setData("text/plain", [listTitles(map), ...lines].join("\n"));
    event.preventDefault();
  };
  document.addEventListener("copy", fill, { once: true });
  document.execCommand("copy");
  button.textContent = `Copied ${lines.length} pairs as CSV`;
}

// Fill the table of the CPU whose row is pointed at, or else of the first.
function tabulateRow(map, details) {
  if (!details.open) return;
  const a = map.order[map.cursor ? map.cursor[0] : 0];
  const table = make("table", "");
  table.createCaption().textContent = map.about.places[a];
  const addRow = (words) => {
    const row = table.insertRow();
    row.append(...words.map((word, at) => make(at && table.rows.length > 1 ? "td" : "th", "", word)));
  };
  [listTitles(map), ...listPairs(map, a, map.order)].forEach(addRow);
  details.replaceChildren(details.firstElementChild, table);
}

function addControls(map) {
  const { parentElement: figure } = map.stack;
  const [select, button, details] = ["select", "button", "details"].map((tag) => figure.querySelector(`:scope > ${tag}, .controls ${tag}`));
  select.addEventListener("change", () => map.arrange(ORDERS[select.value](map), select.value === "topology"));
  button.addEventListener("click", () => copyPairs(map, button));
  for (const [place, kind] of [[details, "toggle"], [map.stack, "point"]]) {
    place.addEventListener(kind, () => tabulateRow(map, details));
  }
}

// Make a relation of a table or the name of a warning a button that lights its pairs
// in the maps of its section, or of the page where its section has none.
function addLight(place, maps) {
  const mark = place.dataset.light;
  const section = place.closest("section");
  const own = maps.filter((map) => section.contains(map.stack));
  const lit = own.length ? own : maps;
  const button = make("button", "light", place.textContent);
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    const isOn = button.getAttribute("aria-pressed") === "false";
    for (const other of document.querySelectorAll(".light")) other.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", isOn);
    for (const map of maps) map.light(isOn && lit.includes(map) ? mark : "");
  });
  place.replaceChildren(button);
}

async function start() {
  const maps = await Promise.all([...document.querySelectorAll("[data-map]")].map(enliven));
  maps.forEach(addControls);
  for (const place of document.querySelectorAll("[data-light]")) {
    if (maps.some((map) => map.about.marks.includes(place.dataset.light))) addLight(place, maps);
  }
}

start();
