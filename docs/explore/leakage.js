/* What leaks: the attacks of experiments/results/leakage.jsonl, and what the attacker then sees. */
"use strict";

(() => {
  const { byId, escape, bytes, percent, grouped, mean, table, scale } = explore;
  const { parts: PARTS, tasks } = explore.data.leakage, [UP, DEFENCES, DOWN, BINARY] = PARTS;
  const VIEWS = {
    inputs: { parts: [UP, DEFENCES], key: "explained_variance", cost: "nbytes_up", quality: "accuracy",
      title: "explained variance of the images (1: all)", what: "of the images' variance is explained", range: [-0.02, 1.03] },
    labels: { parts: [DOWN], key: "direction_best", cost: "nbytes_down", quality: "accuracy",
      title: "AUC of the guessed label (0.5: chance)", what: "AUC of a label guessed by direction, in the best epoch", range: [0.48, 1.03] },
    rare: { parts: [BINARY], key: "norm_best", cost: "nbytes_down", quality: "task_auc",
      title: "AUC of the guessed label (0.5: chance)", what: "AUC of the rare label guessed by length, in the best epoch", range: [0.48, 1.03] },
  };
  const place = byId("plot"), [CODEC, DEFENCE] = explore.LOOKS;
  explore.legend([[CODEC, "codecs"], [DEFENCE, "noise and other defences"]]);
  let shown = null, current = ""; // what the picture shows, and which setting is chosen

  const rowsOf = (state) => {
    const view = VIEWS[state.view];
    return tasks[state.data].rows.filter((row) => view.parts.includes(row.part)).map((row) => {
      const of = (key) => row.runs.map((run) => run[key]).filter((v) => v !== null);
      return { ...row, ...explore.interval(of(view.key), 1), cost: mean(of(view.cost)), quality: mean(of(view.quality)), of };
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
    const list = byId("family");
    if (list.dataset.names !== families.join("|")) {
      list.innerHTML = families.map((words) => `<option>${escape(words)}</option>`).join("");
      list.dataset.names = families.join("|");
    }
    list.value = mine;
    current = row.name;
    const quality = view.quality === "accuracy" ? `accuracy ${percent(row.quality)}` : `AUC of the task ${row.quality.toFixed(3)}`;
    const value = view.key === "explained_variance" ? percent(row.value, 1) : row.value.toFixed(2);
    const positions = row.of("positions");
    byId("said").textContent =
      `${row.name}: ${value} ${view.what}; ${quality}; ${grouped(row.cost, 1)} B per sample ${view.cost === "nbytes_up" ? "up" : "down"}; ` +
      `${row.runs.length} seeds.` +
      (state.view === "inputs" && positions.length ? ` The places of the kept values alone give away ${percent(mean(positions), 1)}.` : "");
    const columns = state.view === "inputs"
      ? { "explained variance": "explained_variance", "by places alone": "positions", "distance correlation": "dcor" }
      : { "AUC, best epoch": view.key, "mean of epochs": view.key.replace("best", "mean") };
    byId("seeds").innerHTML = table([
      ["seed", ...Object.keys(columns), view.quality === "accuracy" ? "accuracy" : "AUC of the task"],
      ...row.runs.map((run) => [run.seed,
        ...Object.values(columns).map((key) => (run[key] === null ? "" : run[key].toFixed(3))),
        view.quality === "accuracy" ? percent(run.accuracy) : run.task_auc.toFixed(3)]),
    ]);
    const faces = byId("faces");
    faces.hidden = !row.shown;
    if (row.shown) {
      paint(byId("originals"), tasks[state.data].originals, tasks[state.data].side);
      paint(byId("guesses"), row.shown, tasks[state.data].side);
      byId("guesses").setAttribute("aria-label", `What the attacker makes of ${row.name}: ten digits, 0 to 9`);
      byId("caption").textContent = `the attacker's guesses from ${row.name} (seed 0)`;
    }
    explore.picture(place, "", (width) => {
      const { narrow, height, box } = explore.frame(width, 420, 340);
      const costs = rows.map((r) => r.cost);
      const x = scale(0.7 * Math.min(...costs), 1.6 * Math.max(...costs), box.left, box.right, true);
      const y = scale(Math.min(view.range[0], ...rows.map((r) => r.low)), view.range[1], box.bottom, box.top);
      const inner = [explore.axes(box, explore.bytesAxis(x, `bytes per sample ${view.cost === "nbytes_up" ? "up" : "down"}`),
        { scale: y, words: (v) => String(+v.toFixed(2)), title: view.title })];
      const options = [], taken = [], at = (r) => [x.at(r.cost), y.at(r.value)];
      rows.forEach((r, i) => {
        const [px, py] = at(r), is = r === row, defence = r.part === DEFENCES || r.name.startsWith("noise");
        if (is) inner.push(explore.spread(px, y.at(r.low), y.at(r.high)));
        const [kind, look] = defence ? DEFENCE : CODEC;
        options.push(explore.option(i, is, `${r.name}: ${r.value.toFixed(2)}, ${bytes(r.cost)}`, kind, px, py, look + (family(r.name) === mine ? "" : " faint")));
        taken.push(explore.around(px, py, is ? 11 : 6));
      });
      const wanted = [row, ...rows.filter((r) => family(r.name) === mine && r !== row), ...(narrow ? [] : rows)]
        .filter((r, i, all) => all.indexOf(r) === i)
        .map((r) => ({ x: at(r)[0], y: at(r)[1], words: r.name, must: r === row, look: r === row ? "strong" : "", off: r === row ? 14 : 10 }));
      shown = { rows, at };
      return { height, body: `<g aria-hidden="true">${inner.join("")}${explore.labels(wanted, box, taken)}</g>${options.join("")}` };
    });
    place.setAttribute("aria-activedescendant", `m${rows.indexOf(row)}`);
    byId("all").innerHTML = table(
      [["setting", "leak", "95 % interval", "sent per sample", view.quality === "accuracy" ? "accuracy" : "AUC of the task"],
        ...rows.map((r) => [escape(r.name), r.value.toFixed(3), `[${r.low.toFixed(3)}, ${r.high.toFixed(3)}]`, `${grouped(r.cost, 1)} B`,
          view.quality === "accuracy" ? percent(r.quality) : r.quality.toFixed(3)])], rows.indexOf(row));
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
  explore.arrows(place, () => ({ names: shown.rows.map((r) => r.name), now: current }), (setting) => set({ setting }));
  place.addEventListener("click", (event) => {
    const [px, py] = explore.where(place, event);
    const far = (r) => Math.hypot(shown.at(r)[0] - px, shown.at(r)[1] - py);
    const row = shown.rows.reduce((a, b) => (far(b) < far(a) ? b : a));
    if (far(row) < 24) set({ setting: row.name });
  });
})();
