(function () {
  "use strict";
  var table = document.getElementById("machines"), body = table.tBodies[0];
  var rows = [], heads = Array.from(table.tHead.rows[0].cells);
  Array.from(table.tBodies).forEach(function (group) { // the model in each row, to sort by others
    var model = group.rows[0].cells[0];
    Array.from(group.rows).forEach(function (row) {
      var cell = document.createElement("td");
      cell.className = "model";
      cell.textContent = model.textContent;
      if (row.contains(model)) model.remove();
      row.insertBefore(cell, row.firstChild);
      rows.push(row);
      body.appendChild(row);
    });
    if (group !== body) group.remove();
  });
  var query = document.getElementById("q"), found = document.getElementById("found");
  var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
  var by = -1, down = false;

  function filter() {
    var words = query.value.toLowerCase().split(/\s+/), count = 0;
    rows.forEach(function (row, at) {
      row.hidden = !words.every(function (word) { return texts[at].includes(word); });
      count += !row.hidden;
    });
    found.textContent = count + " of " + rows.length + " machines";
  }

  function key(row) { // of several medians the last, of the farthest CPUs
    var text = row.cells[by].textContent;
    return heads[by].dataset.last === undefined ? text : (/[\d.]*$/.exec(text) || [""])[0];
  }

  function compare(a, b) {
    var left = key(a), right = key(b);
    if (!left !== !right) return left ? -1 : 1;
    return (down ? -1 : 1) * left.localeCompare(right, "en", { numeric: true });
  }

  function sort() {
    heads.forEach(function (head, at) {
      if (at === by) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (by >= 0) rows.slice().sort(compare).forEach(function (row) { body.appendChild(row); });
  }

  function keep() {
    var state = new URLSearchParams();
    if (query.value) state.set("q", query.value);
    if (by >= 0) state.set("sort", (down ? "-" : "") + by);
    history.replaceState(null, "", "#" + state);
  }

  function restore() {
    var state = new URLSearchParams(location.hash.slice(1)), place = state.get("sort") || "";
    query.value = state.get("q") || "";
    down = place.charAt(0) === "-";
    by = /^-?\d+$/.test(place) && heads[Math.abs(place)] ? Math.abs(place) : -1;
    filter();
    sort();
  }

  heads.forEach(function (head, at) {
    if (at === 1) return; // the map
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", function () {
      down = by === at && !down;
      by = at;
      sort();
      keep();
    });
  });
  query.addEventListener("input", function () { filter(); keep(); });
  window.addEventListener("hashchange", restore);
  document.getElementById("find").hidden = false;
  restore();
})();
