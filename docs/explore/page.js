/* What all pages share: controls and their state in the address, scales, labels that keep apart.

   Not here: the numbers (formulas.js), and each page's own figure. */
"use strict";

explore.byId = (id) => document.getElementById(id);

/* What all pages have at their head and foot. Without scripts, a page still has the link to the first one. */
(() => {
  const pages = {
    index: "Start", playground: "Train it here", pareto: "The one plot", language: "Language models", silence: "Silence",
    codec: "A codec", leakage: "What leaks", advisor: "When splitting pays",
  };
  const here = location.pathname.split("/").pop().replace(".html", "") || "index";
  document.querySelector("nav").innerHTML = Object.entries(pages).map(([page, words]) =>
    `<a href="${page}.html"${page === here ? ' aria-current="page"' : ""}>${words}</a>`).join("\n");
  for (const link of document.querySelectorAll('footer a[href*="notebooks/"]')) {
    const file = `notebooks/${/(\w+)\.\w+$/.exec(link.href)[1]}.ipynb`;
    link.insertAdjacentHTML("afterend", `,
      <a href="https://mybinder.org/v2/gh/fltoolkit/fltoolkit/HEAD?urlpath=lab/tree/${file}">on Binder</a>,
      <a href="https://colab.research.google.com/github/fltoolkit/fltoolkit/blob/course/${file}">on Colab</a>`);
  }
  document.querySelector("footer").insertAdjacentHTML("beforeend", `
    <p>Nothing is loaded from anywhere else and nothing is sent: the stored runs came with this page. The address
      holds what you have chosen: <button type="button" data-copy="address">copy the link</button></p>`);
})();

/* A slider where a page has named one: its words, what it holds, and its handle. */
for (const place of document.querySelectorAll("[data-slider]")) {
  const id = place.dataset.slider;
  place.innerHTML = `<label for="${id}">${place.innerHTML}: <output for="${id}"></output></label><input type="range" id="${id}" min="0" step="1">`;
}

explore.escape = (text) =>
  String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

/* Round numbers from `low` to `high`, so many in each power of ten: the stops of a slider. */
explore.stops = (low, high, perDecade) => {
  const first = Math.round(perDecade * Math.log10(low)), last = Math.round(perDecade * Math.log10(high));
  const found = [];
  for (let k = first; k <= last; k++) found.push(+(10 ** (k / perDecade)).toPrecision(3));
  return found;
};

explore.RATES = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]; // Mbit/s
explore.LATENCIES = [0, ...explore.RATES.slice(3)]; // ms

/* Run a page. `defaults` holds the state by name; its control is the element with that id. A slider has
   `stops[name]`, an array or a function of the state, and its value is the place in it. What differs from
   the defaults stands behind # in the address. `render(state)` draws; `words[name](value, state)` is what
   a slider says to a screen reader and beside itself. `renew[name]` lists what begins anew when `name` is
   changed by hand: a budget of bytes is none of seconds. Returns `set(changes)`. */
explore.page = ({ defaults, stops = {}, words = {}, renew = {}, render, repair = (state) => state }) => {
  const state = { ...defaults };
  const stopsOf = (name) => (typeof stops[name] === "function" ? stops[name](state) : stops[name]);

  const nearest = (list, value, start) => {
    if (typeof value === "string") return Math.max(list.includes(value) ? list.indexOf(value) : list.indexOf(start), 0);
    const log = list.every((stop) => stop > 0) && value > 0;
    const far = (stop) => (log ? Math.abs(Math.log(stop / value)) : Math.abs(stop - value));
    return list.reduce((best, stop, i) => (far(stop) < far(list[best]) ? i : best), 0);
  };

  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const [name, start] of Object.entries(defaults)) {
      const text = given.get(name);
      if (text === null) state[name] = start;
      else if (typeof start === "number") state[name] = Number.isFinite(+text) ? +text : start;
      else if (typeof start === "boolean") state[name] = text === "true";
      else state[name] = text;
    }
  };

  /* A choice that is none gives way to the default. Lists that `render` fills have a check of their own. */
  const isChoice = (control, value) => [...control.options].some((option) => option.value === value);
  const show = () => {
    for (const name of Object.keys(defaults)) {
      const control = explore.byId(name);
      const fixed = control && control.options && control.options.length && !control.dataset.names;
      if (fixed && !isChoice(control, state[name])) state[name] = defaults[name];
    }
    Object.assign(state, repair(state));
    for (const name of Object.keys(defaults)) {
      const control = explore.byId(name);
      if (control && control.type === "range") {
        const list = stopsOf(name), place = nearest(list, state[name], defaults[name]);
        state[name] = list[place];
        control.max = list.length - 1;
        control.value = place;
        const said = words[name] ? words[name](state[name], state) : String(state[name]);
        control.setAttribute("aria-valuetext", said);
        const output = document.querySelector(`output[for="${name}"]`);
        if (output) output.textContent = said;
      } else if (control && control.type === "checkbox") control.checked = state[name];
      else if (control) control.value = state[name];
    }
    render(state);
    for (const box of document.querySelectorAll(".scroll")) { // what scrolls must be reached by keys
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };

  const write = () => {
    const kept = new URLSearchParams();
    for (const [name, value] of Object.entries(state)) {
      if (value !== defaults[name]) kept.set(name, value);
    }
    const hash = "#" + kept.toString();
    if (hash !== (location.hash || "#")) history.replaceState(null, "", hash);
  };

  const set = (changes) => {
    for (const name of Object.keys(changes)) {
      for (const other of renew[name] || []) state[other] = defaults[other];
    }
    Object.assign(state, changes);
    show();
    if (Object.keys(changes).length) write();
  };

  for (const name of Object.keys(defaults)) {
    const control = explore.byId(name);
    if (!control) continue;
    control.addEventListener("input", () => {
      if (control.type === "range") set({ [name]: stopsOf(name)[+control.value] });
      else if (control.type === "checkbox") set({ [name]: control.checked });
      else set({ [name]: typeof defaults[name] === "number" ? +control.value : control.value });
    });
  }
  window.addEventListener("hashchange", () => { read(); show(); });
  let width = window.innerWidth; // phones fire "resize" when their address bar moves
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; show(); }
  });
  document.querySelectorAll("details").forEach((details) => details.addEventListener("toggle", show));
  document.querySelectorAll("[data-copy]").forEach((button) => {
    button.addEventListener("click", () => {
      const text = button.dataset.copy === "address" ? location.href : explore.byId(button.dataset.copy).textContent;
      const told = (words) => { button.textContent = words; };
      const before = button.textContent;
      Promise.resolve(navigator.clipboard && navigator.clipboard.writeText(text))
        .then(() => told("copied"), () => told("press Ctrl+C in the selection"))
        .then(() => setTimeout(() => told(before), 1500));
    });
  });
  read();
  show();
  document.documentElement.dataset.ready = Math.round(performance.now()); // tests wait for it
  return set;
};

/* ---- pictures: SVG as text ---- */

/* A scale from values to pixels. `at(value)`, its inverse `of(pixel)`, and `ticks`: [value, pixel]. */
explore.scale = (low, high, start, end, log = false, most = 6) => {
  const f = log ? Math.log10 : (v) => v;
  const at = (value) => start + ((f(value) - f(low)) / (f(high) - f(low))) * (end - start);
  const of = (pixel) => {
    const inner = f(low) + ((pixel - start) / (end - start)) * (f(high) - f(low));
    return log ? 10 ** inner : inner;
  };
  const values = [];
  if (log) {
    for (let p = Math.ceil(f(low) - 1e-9); p <= Math.floor(f(high) + 1e-9); p++) values.push(10 ** p);
    if (values.length < 4) { // few powers of ten: also 3 of each
      for (let p = Math.floor(f(low)); p <= f(high); p++) values.push(3 * 10 ** p);
      values.splice(0, values.length, ...values.filter((v) => v >= low && v <= high).sort((a, b) => a - b));
    }
    while (values.length > most) values.splice(0, values.length, ...values.filter((_, i) => i % 2 === 0));
  } else {
    const power = 10 ** Math.floor(Math.log10((high - low) / most));
    const step = power * [1, 2, 5, 10].find((m) => (high - low) / (power * m) <= most);
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
      values.push(+(k * step).toPrecision(12));
    }
  }
  return { at, of, ticks: values.map((value) => [value, at(value)]) };
};

/* A logarithmic scale of costs with a place for 0 at its left end, where some cost nothing. */
explore.costScale = (low, high, free, box, most) => {
  const start = box.left + (free ? 46 : 0), scale = explore.scale(low, high, start, box.right, true, most);
  if (!free) return scale;
  return { ...scale, at: (v) => (v > 0 ? Math.max(scale.at(v), start) : box.left + 12), ticks: [[0, box.left + 12], ...scale.ticks] };
};

/* A scale of accuracies on which equal steps are equal factors of the errors: 90 to 95 % is as far as 95 to
   97.5 %. Good methods, which differ by tenths of a point, are told apart so. */
explore.accuracyScale = (low, high, start, end) => {
  const errors = explore.scale(1 - low, 1 - high, start, end, true);
  const wanted = [0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995];
  const ticks = [];
  for (const value of wanted) {
    const at = errors.at(1 - value), free = ticks.every(([, other]) => Math.abs(at - other) > 24);
    if (value > low && value < high && free) ticks.push([value, at]);
  }
  return { at: (accuracy) => errors.at(Math.max(1 - accuracy, 1e-9)), of: (pixel) => 1 - errors.of(pixel), ticks };
};

/* A scale of losses whose height is the logarithm of the distance to `floor`, a little below the best: good
   methods, which differ by hundredths, are told apart, and bad ones are still in the picture. */
explore.lossScale = (low, high, start, end, floor) => {
  const above = explore.scale(low - floor, high - floor, start, end, true), ticks = [];
  for (const step of [1, 0.5, 0.1, 0.05, 0.02, 0.01]) {
    if (step < 0.05 && ticks.length > 3) break;
    for (let k = Math.ceil(low / step); k * step <= high; k++) {
      const value = +(k * step).toFixed(2), at = above.at(value - floor);
      if (ticks.every(([, other]) => Math.abs(at - other) > (step < 0.1 ? 34 : 26))) ticks.push([value, at]);
    }
  }
  return { at: (loss) => above.at(Math.max(loss - floor, 1e-9)), of: (pixel) => floor + above.of(pixel), ticks };
};

/* The frame of a figure: grid, tick words, axis titles. `x` and `y` are {scale, words, title}. */
explore.axes = (box, x, y) => {
  const parts = [];
  for (const [value, at] of y.scale.ticks) {
    parts.push(`<path class="grid" d="M${box.left} ${at.toFixed(1)}H${box.right}"/>`);
    parts.push(`<text class="tick" x="${box.left - 6}" y="${(at + 4).toFixed(1)}" text-anchor="end">${y.words(value)}</text>`);
  }
  for (const [value, at] of x.scale.ticks) {
    parts.push(`<path class="grid" d="M${at.toFixed(1)} ${box.top}V${box.bottom}"/>`);
    const last = at > box.right - 12; // words centred on the edge would be cut off there
    parts.push(`<text class="tick" x="${(last ? box.right + 12 : at).toFixed(1)}" y="${box.bottom + 17}" text-anchor="${last ? "end" : "middle"}">${x.words(value)}</text>`);
  }
  parts.push(`<text class="title" x="${(box.left + box.right) / 2}" y="${box.bottom + 36}" text-anchor="middle">${x.title}</text>`);
  parts.push(`<text class="title" x="${box.titleLeft ?? 4}" y="${box.top - 10}">${y.title}</text>`);
  return parts.join("");
};

/* Tick words without a needless ".0". */
explore.brief = (words) => (value) => words(value).replace(/\.0(?=\D|$)/, "");

/* Axes that write units themselves: of bytes, never of kB or MB, and of accuracies from 0 to 1. */
explore.bytesAxis = (scale, what) => ({ scale, words: explore.brief(explore.bytes), title: `${what} (log)` });
explore.accuracyAxis = (scale, what = "test accuracy") => ({ scale, words: explore.brief(explore.percent), title: `${what} (log of the errors)` });

/* The part of a picture between its axes, to clip lines at. */
explore.clip = (box) => `<clipPath id="inside"><path d="M${box.left} ${box.top}H${box.right}V${box.bottom}H${box.left}z"/></clipPath>`;

/* The path of a front: what the cheaper point reached counts until a better one is paid for. */
explore.stairs = (front, x, y, box) =>
  front.map((p, i) => `${i ? "H" : "M"}${x.at(p.cost).toFixed(1)}${i ? "V" : " "}${y.at(p.value).toFixed(1)}`).join("") +
  `H${box.right}`;

/* Boxes along the stairs of a front, for `explore.labels` to stay clear of. */
explore.stairBoxes = (front, x, y, box) =>
  front.flatMap((p, i) => {
    const px = x.at(p.cost), py = y.at(p.value), next = front[i + 1];
    const end = next ? x.at(next.cost) : box.right;
    const across = [px, py - 2, end, py + 2];
    if (!next) return [across];
    const other = y.at(next.value);
    return [across, [end - 2, Math.min(other, py), end + 2, Math.max(other, py)]];
  });

/* How wide words will be, in the fonts of explore.css. */
const ruler = document.createElement("canvas").getContext("2d");
explore.width = (words, bold) => {
  ruler.font = `${bold ? 700 : 400} 12.5px system-ui, sans-serif`;
  return ruler.measureText(words).width;
};

/* Words beside points such that nothing lies on anything. `wanted`: {x, y, words, must, look, also,
   off}, the most important first; `also` are other points [x, y] that will do, `off` the mark's size; `taken`: boxes [x0, y0, x1, y1] to
   stay clear of. One that finds no place is left
   out; one that must be there is tied to its point by a line. */
explore.labels = (wanted, box, taken = []) => {
  const boxes = [...taken], parts = [];
  const clear = (b) => b[0] >= box.left && b[2] <= box.right && b[1] >= box.top && b[3] <= box.bottom &&
    boxes.every((o) => b[2] <= o[0] || b[0] >= o[2] || b[3] <= o[1] || b[1] >= o[3]);
  for (const { x, y, words, must, look = "", also = [], off = 10 } of wanted) {
    const width = explore.width(words, look === "strong") + 6, places = [];
    const around = (px, py, gap) => {
      places.push([px + off, py - gap], [px - off - width, py - gap], [px + off, py + gap], [px - off - width, py + gap]);
      if (must || !gap) places.push([px - width / 2, py - off - 8 - gap], [px - width / 2, py + off + 8 + gap]);
    };
    for (const gap of must ? [0, 10, 20, 32] : [0, 8, 14]) {
      for (const [px, py] of [[x, y], ...also]) around(px, py, gap);
    }
    let place = places.find(([px, py]) => clear([px, py - 8, px + width, py + 8]));
    if (!place && must) { // the nearest clear place anywhere, tied to the mark by a line
      let least = Infinity;
      for (let py = box.top + 8; py <= box.bottom - 8; py += 6) {
        for (let px = box.left; px <= box.right - width; px += 6) {
          const far = Math.hypot(px + width / 2 - x, py - y);
          if (far < least && clear([px, py - 8, px + width, py + 8])) { least = far; place = [px, py]; }
        }
      }
      if (!place) continue; // on a phone a name may fit nowhere; the sentence below the figure has it
      const end = Math.min(Math.max(x, place[0]), place[0] + width);
      parts.push(`<path class="leader" d="M${x.toFixed(1)} ${y.toFixed(1)}L${end.toFixed(1)} ${(place[1] + (y > place[1] ? 7 : -7)).toFixed(1)}"/>`);
    }
    if (!place) continue;
    const [px, py] = place;
    boxes.push([px, py - 8, px + width, py + 8]);
    parts.push(`<text class="label ${look}" x="${(px + 3).toFixed(1)}" y="${(py + 4).toFixed(1)}">${explore.escape(words)}</text>`);
  }
  return parts.join("");
};

/* Marks that differ in shape and in colour. */
explore.mark = (kind, x, y, look, size = 5) => {
  const s = size, at = `${x.toFixed(1)} ${y.toFixed(1)}`;
  if (kind === "circle") return `<circle class="${look}" cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${s}"/>`;
  if (kind === "diamond") return `<path class="${look}" d="M${at}m0 ${-1.4 * s}l${1.4 * s} ${1.4 * s}l${-1.4 * s} ${1.4 * s}l${-1.4 * s} ${-1.4 * s}z"/>`;
  if (kind === "down") return `<path class="${look}" d="M${at}m0 ${1.2 * s}l${1.2 * s} ${-2.2 * s}h${-2.4 * s}z"/>`;
  if (kind === "triangle") return `<path class="${look}" d="M${at}m0 ${-1.2 * s}l${1.2 * s} ${2.2 * s}h${-2.4 * s}z"/>`;
  return `<rect class="${look}" x="${(x - 0.9 * s).toFixed(1)}" y="${(y - 0.9 * s).toFixed(1)}" width="${1.8 * s}" height="${1.8 * s}"/>`;
};

/* How what trains together looks, and what does not: the data sent, one sum, each alone. */
explore.LOOKS = [["circle", "one"], ["square", "two"], ["down", "four"], ["circle", "one hollow"], ["square", "two hollow"]];
explore.NULL = ["circle", "grey hollow"];
explore.lookOf = { federated: explore.LOOKS[0], split: explore.LOOKS[1], null: explore.NULL };

/* A list of marks, [look, words]; a look that is a text is a picture of its own. */
explore.legend = (items) => {
  const icon = (look) => (typeof look === "string" ? look : `<svg width="16" height="14" aria-hidden="true">${explore.mark(look[0], 8, 7, look[1], 4.5)}</svg>`);
  document.querySelector(".legend").innerHTML = items.map(([look, words]) => `<li>${icon(look)}${explore.escape(words)}</li>`).join("");
};

/* Put a picture into its place at the width that it has there; returns nothing. `draw(width)` gives
   {height, body}. `name` says what it shows to those who do not see it; without one the picture's own
   parts have roles and names. */
explore.picture = (place, name, draw) => {
  const width = Math.max(Math.floor(place.clientWidth), 260), { height, body } = draw(width);
  const role = name ? `role="img" aria-label="${explore.escape(name)}"` : 'role="presentation"';
  place.innerHTML =
    `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${role}>${body}</svg>`;
};

/* Whether words beside a figure can stand on one line there, or the screen is a phone's. */
explore.isNarrow = (width) => width < 560;

/* Where the axes of a figure stand: its height is `wide`, or `low` on a phone, and leaves room for controls on a low screen. */
explore.frame = (width, wide, low, left = 48) => {
  const narrow = explore.isNarrow(width), height = Math.min(narrow ? low : wide, Math.max(170, Math.round(0.55 * innerHeight)));
  return { narrow, height, box: { left, right: width - 14, top: 28, bottom: height - 44 } };
};

/* A line through points [x, y]; a line from low to high with ends; the ring of what is chosen; the box around a mark. */
explore.path = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
explore.spread = (x, low, high) => `<path class="spread" d="M${x} ${low}V${high}m-4 0h8M${x - 4} ${low}h8"/>`;
explore.ring = (x, y) => `<circle class="ring" cx="${x}" cy="${y}" r="11"/>`;
explore.around = (x, y, room) => [x - room, y - room, x + room, y + room];

/* A mark that is the i-th choice of a picture. */
explore.option = (i, is, words, kind, x, y, look) =>
  `<g role="option" id="m${i}" aria-selected="${is}" aria-label="${explore.escape(words)}">` +
  explore.mark(kind, x, y, look, is ? 7 : 5) + (is ? explore.ring(x, y) : "") + "</g>";

/* Arrow keys in `place` walk through what `walk()` gives, {names, now}, and choose another name. */
explore.arrows = (place, walk, choose) => place.addEventListener("keydown", (event) => {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -1e9, End: 1e9 };
  if (!(event.key in steps)) return;
  event.preventDefault();
  const { names, now } = walk();
  choose(names[Math.min(Math.max(names.indexOf(now) + steps[event.key], 0), names.length - 1)]);
});

/* Where the mouse is in a place. */
explore.where = (place, event) => {
  const corner = place.getBoundingClientRect();
  return [event.clientX - corner.left, event.clientY - corner.top];
};

/* A table from rows of cells; the first row are heads. */
explore.table = (rows, chosen = -1) => {
  const [heads, ...rest] = rows;
  const cells = (row) =>
    row.map((cell, i) => (i ? `<td>${cell}</td>` : `<th scope="row">${cell}</th>`)).join("");
  return (
    `<thead><tr>${heads.map((h) => `<th scope="col">${h}</th>`).join("")}</tr></thead><tbody>` +
    rest.map((row, i) => `<tr${i === chosen ? ' aria-current="true"' : ""}>${cells(row)}</tr>`).join("") +
    "</tbody>"
  );
};
