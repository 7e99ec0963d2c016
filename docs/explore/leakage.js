/* What leaks: the attacks of experiments/results/leakage.jsonl, and what the attacker then sees. */
"use strict";

(() => {
  const { parts: PARTS, tasks } = explore.data.leakage, [UP, DEFENCES, DOWN, BINARY] = PARTS;
  const VIEWS = {
    inputs: { parts: [UP, DEFENCES], key: "explained_variance", cost: "nbytes_up", quality: "accuracy",
      title: "explained variance of the images (1: all)", what: "of the images' variance is explained", range: [-0.02, 1.03] },
    labels: { parts: [DOWN], key: "direction_best", cost: "nbytes_down", quality: "accuracy",
      title: "AUC of the guessed label (0.5: chance)", what: "AUC of a label guessed by direction, in the best epoch", range: [0.48, 1.03] },
    rare: { parts: [BINARY], key: "norm_best", cost: "nbytes_down", quality: "task_auc",
      title: "AUC of the guessed label (0.5: chance)", what: "AUC of the rare label guessed by length, in the best epoch", range: [0.48, 1.03] },
  };
  const place = explore.byId("plot");
  let shown = null, current = ""; // what the picture shows, and which setting is chosen

  const rowsOf = (state) => {
    const view = VIEWS[state.view];
    return tasks[state.data].rows.filter((row) => view.parts.includes(row.part)).map((row) => {
      const of = (key) => row.runs.map((run) => run[key]).filter((v) => v !== null);
      const values = of(view.key);
      return { ...row, value: explore.mean(values), low: Math.min(...values), high: Math.max(...values),
        cost: explore.mean(of(view.cost)), quality: explore.mean(of(view.quality)), of };
    });
  };
  /* The family of a setting and its strength: the slider walks from the weakest to the strongest. */
  const family = (name) => name.replace(/^(\d+) bits?$/, "plain bits").replace(/^(float32|Float8)$/, "plain bits")
    .replace(/^rotated.*/, "rotated bits").replace(/ [\d.]+%?(?=,|$)/, "").replace(/^NoPeek,.*/, "NoPeek with more");

  const paint = (canvas, text, side) => {
    const count = 10, cells = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)), context = canvas.getContext("2d");
    canvas.width = count * side;
    canvas.height = side;
    const image = context.createImageData(canvas.width, side);
    for (let i = 0; i < count * side * side; i++) {
      const shade = 255 - 17 * (i % 2 ? cells[i >> 1] & 15 : cells[i >> 1] >> 4);
      const digit = Math.floor(i / (side * side)), rest = i % (side * side);
      const at = 4 * (Math.floor(rest / side) * canvas.width + digit * side + (rest % side));
      image.data.set([shade, shade, shade, 255], at);
    }
    context.putImageData(image, 0, 0);
  };

  const render = (state) => {
    const view = VIEWS[state.view], rows = rowsOf(state), names = rows.map((row) => row.name);
    const families = [...new Set(names.map(family))];
    const row = rows.find((r) => r.name === state.setting), mine = family(state.setting);
    const list = explore.byId("family");
    if (list.dataset.names !== families.join("|")) {
      list.innerHTML = families.map((words) => `<option>${explore.escape(words)}</option>`).join("");
      list.dataset.names = families.join("|");
    }
    list.value = mine;
    current = row.name;
    const quality = view.quality === "accuracy" ? `accuracy ${explore.percent(row.quality)}` : `AUC of the task ${row.quality.toFixed(3)}`;
    const value = view.key === "explained_variance" ? explore.percent(row.value, 1) : row.value.toFixed(2);
    const positions = row.of("positions");
    explore.byId("said").textContent =
      `${row.name}: ${value} ${view.what}; ${quality}; ${explore.grouped(row.cost, 1)} B per sample ${view.cost === "nbytes_up" ? "up" : "down"}; ` +
      `${row.runs.length} seeds.` +
      (state.view === "inputs" && positions.length ? ` The places of the kept values alone give away ${explore.percent(explore.mean(positions), 1)}.` : "");
    const columns = state.view === "inputs"
      ? { "explained variance": "explained_variance", "by places alone": "positions", "distance correlation": "dcor" }
      : { "AUC, best epoch": view.key, "mean of epochs": view.key.replace("best", "mean") };
    explore.byId("seeds").innerHTML = explore.table([
      ["seed", ...Object.keys(columns), view.quality === "accuracy" ? "accuracy" : "AUC of the task"],
      ...row.runs.map((run) => [run.seed,
        ...Object.values(columns).map((key) => (run[key] === null ? "" : run[key].toFixed(3))),
        view.quality === "accuracy" ? explore.percent(run.accuracy) : run.task_auc.toFixed(3)]),
    ]);
    const faces = explore.byId("faces");
    faces.hidden = !row.shown;
    if (row.shown) {
      paint(explore.byId("originals"), tasks[state.data].originals, tasks[state.data].side);
      paint(explore.byId("guesses"), row.shown, tasks[state.data].side);
      explore.byId("guesses").setAttribute("aria-label", `What the attacker makes of ${row.name}: ten digits, 0 to 9`);
      explore.byId("caption").textContent = `the attacker's guesses from ${row.name} (seed 0)`;
    }
    explore.picture(place, "", (width) => {
      const narrow = explore.isNarrow(width), height = narrow ? 340 : 420;
      const box = { left: 48, right: width - 14, top: 28, bottom: height - 44 };
      const costs = rows.map((r) => r.cost);
      const x = explore.scale(0.7 * Math.min(...costs), 1.6 * Math.max(...costs), box.left, box.right, true);
      const y = explore.scale(Math.min(view.range[0], ...rows.map((r) => r.low)), view.range[1], box.bottom, box.top);
      const inner = [explore.axes(box, { scale: x, words: explore.brief(explore.bytes), title: `bytes per sample ${view.cost === "nbytes_up" ? "up" : "down"} (log)` },
        { scale: y, words: (v) => String(+v.toFixed(2)), title: view.title })];
      const options = [], taken = [], at = (r) => [x.at(r.cost), y.at(r.value)];
      rows.forEach((r, i) => {
        const [px, py] = at(r), is = r === row, defence = r.part === DEFENCES || r.name.startsWith("noise");
        const look = defence ? "two" : "one";
        if (is) inner.push(`<path class="spread" d="M${px} ${y.at(r.low)}V${y.at(r.high)}m-4 0h8M${px - 4} ${y.at(r.low)}h8"/>`);
        options.push(`<g role="option" id="m${i}" aria-selected="${is}" aria-label="${explore.escape(`${r.name}: ${r.value.toFixed(2)}, ${explore.bytes(r.cost)}`)}">` +
          explore.mark(defence ? "square" : "circle", px, py, look + (family(r.name) === mine ? "" : " faint"), is ? 7 : 5) + (is ? `<circle class="ring" cx="${px}" cy="${py}" r="11"/>` : "") + "</g>");
        const room = is ? 11 : 6;
        taken.push([px - room, py - room, px + room, py + room]);
      });
      const wanted = [row, ...rows.filter((r) => family(r.name) === mine && r !== row), ...(narrow ? [] : rows)]
        .filter((r, i, all) => all.indexOf(r) === i)
        .map((r) => ({ x: at(r)[0], y: at(r)[1], words: r.name, must: r === row, look: r === row ? "strong" : "", off: r === row ? 14 : 10 }));
      shown = { rows, at };
      return { height, body: `<g aria-hidden="true">${inner.join("")}${explore.labels(wanted, box, taken)}</g>${options.join("")}` };
    });
    place.setAttribute("aria-activedescendant", `m${rows.indexOf(row)}`);
    explore.byId("all").innerHTML = explore.table(
      [["setting", "leak", "worst and best seed", "bytes per sample", view.quality === "accuracy" ? "accuracy" : "AUC of the task"],
        ...rows.map((r) => [explore.escape(r.name), r.value.toFixed(3), `${r.low.toFixed(3)}, ${r.high.toFixed(3)}`, explore.grouped(r.cost, 1),
          view.quality === "accuracy" ? explore.percent(r.quality) : r.quality.toFixed(3)])], rows.indexOf(row));
  };

  let last = "";
  const set = explore.page({
    defaults: { data: "digits", view: "inputs", family: "plain bits", setting: "8 bits" },
    stops: { setting: (state) => rowsOf(state).map((row) => row.name).filter((name) => family(name) === state.family) },
    words: { setting: (value) => value },
    repair: (state) => {
      if (!VIEWS[state.view]) state.view = "inputs";
      const changed = last && last !== state.family;
      const names = rowsOf(state).map((row) => row.name);
      if (changed && family(state.setting) !== state.family) {
        state.setting = names.find((name) => family(name) === state.family) || names[0];
      }
      if (!names.includes(state.setting)) state.setting = names.includes("8 bits") ? "8 bits" : names[0];
      last = state.family = family(state.setting);
      return state;
    },
    render,
  });

  /* In the picture, arrow keys walk through all settings, the slider through those of a family. */
  const choose = (step) => {
    const names = shown.rows.map((r) => r.name), now = names.indexOf(current);
    set({ setting: names[Math.min(Math.max(now + step, 0), names.length - 1)] });
  };
  place.addEventListener("click", (event) => {
    const corner = place.getBoundingClientRect(), px = event.clientX - corner.left, py = event.clientY - corner.top;
    const far = (r) => Math.hypot(shown.at(r)[0] - px, shown.at(r)[1] - py);
    const row = shown.rows.reduce((a, b) => (far(b) < far(a) ? b : a));
    if (far(row) < 24) set({ setting: row.name });
  });
  place.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -1e9, End: 1e9 };
    if (event.key in steps) { event.preventDefault(); choose(steps[event.key]); }
  });
})();
