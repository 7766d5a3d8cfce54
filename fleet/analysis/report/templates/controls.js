// What stands beside the maps of a page (map.js): relations and warnings that light their
// pairs.

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
  for (const place of document.querySelectorAll("[data-light]")) {
    if (maps.some((map) => map.about.marks.includes(place.dataset.light))) addLight(place, maps);
  }
}

start();
