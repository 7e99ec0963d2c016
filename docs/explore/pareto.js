/* The one plot: every stored run of experiments/results/pareto.jsonl. */
"use strict";

(() => {
  const { tasks } = explore.data.pareto;
  const COSTS = {
    nbytes: { title: "bytes sent, both directions", words: explore.bytes, stops: [3e5, 3e9], start: 1e7, unit: "bytes" },
    up: { title: "bytes sent up", words: explore.bytes, stops: [1e4, 1e9], start: 1e6, unit: "bytes up" },
    seconds: { title: "seconds on your link", words: explore.seconds, stops: [0.1, 1e6], start: 100, unit: "seconds" },
    flops: { title: "computing at the clients", words: explore.flops, stops: [1e9, 1e14], start: 1e12, unit: "FLOP" },
  };
  const DIRECTIONS = { up: "up", down: "down", across: "handed on" };
  const RATES = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], LATENCIES = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
  const METHOD = "3 bits + EF both ways"; // where the page begins
  const place = explore.byId("plot");
  let shown = null; // what the picture shows now: {points, x, y, box}
  let hovered = "", dragged = "", last = { x: "", budget: 0 };

  const taskOf = (state) => tasks.find((t) => t.data === state.data && t.partition === state.partition);

  /* What a run cost, by the chosen measure. */
  const cost = (run, state) => {
    if (state.x !== "seconds") return run[state.x];
    return explore.secondsOn(run, (state.rateUp * 1e6) / 8, (state.rateDown * 1e6) / 8, state.latency / 1000);
  };
  const atEnd = (run, task) => run.curve[run.curve.length - 1][1] / task.num_test;

  const pointsOf = (task, state) =>
    task.methods
      .map((method) => {
        const scores = method.runs.map((run) => atEnd(run, task));
        return {
          method,
          name: method.name,
          cost: explore.mean(method.runs.map((run) => cost(run, state))),
          accuracy: explore.mean(scores),
          low: Math.min(...scores),
          high: Math.max(...scores),
        };
      })
      .sort((a, b) => a.cost - b.cost);

  /* The best that a budget buys: runs are stopped there. */
  const bestWithin = (points, task, state) => {
    const found = points.map((point) => {
      const each = point.method.runs.map((run) => explore.accuracyWithin(run, state.budget, task.num_test, (r) => cost(r, state)));
      return { ...point, reached: each.includes(null) ? null : explore.mean(each) };
    });
    return found.filter((p) => p.reached !== null).sort((a, b) => b.reached - a.reached);
  };

  /* Who reaches the target with every seed, the cheapest first. */
  const reaching = (points, task, state) => {
    const found = points.map((point) => {
      const each = point.method.runs.map((run) => explore.costToReach(run, state.target, task.num_test, (r) => cost(r, state)));
      return { ...point, needs: each.includes(null) ? null : explore.mean(each) };
    });
    return found.filter((p) => p.needs !== null).sort((a, b) => a.needs - b.needs);
  };

  const draw = (state, task, points, best, cheapest) => (width) => {
    const narrow = explore.isNarrow(width), height = narrow ? 400 : 480;
    const box = { left: 48, right: width - 14, top: 30, bottom: height - 44 };
    const costs = points.flatMap((p) => [p.cost]), c = COSTS[state.x];
    const x = explore.scale(0.6 * Math.min(...costs), 1.5 * Math.max(...costs), box.left, box.right, true, narrow ? 4 : 8);
    const least = Math.min(...points.map((p) => p.low)), most = Math.max(...points.map((p) => p.high), 0.985);
    const y = explore.accuracyScale(least - 0.2 * (1 - least), most + 0.2 * (1 - most), box.bottom, box.top);
    const front = explore.front(points), chosen = points.find((p) => p.name === state.method) || points[0];
    const parts = [explore.axes(box, { scale: x, words: explore.brief(c.words), title: `${c.title} (log)` },
      { scale: y, words: (v) => `${+(100 * v).toFixed(1)} %`, title: "test accuracy (log of the errors)" })];
    parts.push(`<clipPath id="inside"><path d="M${box.left} ${box.top}H${box.right}V${box.bottom}H${box.left}z"/></clipPath>`);
    parts.push(`<path class="front" d="${explore.stairs(front, x, y, box)}"/>`);
    for (const run of chosen.method.runs) {
      const path = run.curve.map(([, right], i) =>
        `${i ? "L" : "M"}${x.at(cost(explore.until(run, i), state)).toFixed(1)} ${y.at(right / task.num_test).toFixed(1)}`);
      parts.push(`<path class="line thin grey" clip-path="url(#inside)" d="${path.join("")}"/>`);
    }
    const atBudget = Math.min(Math.max(x.at(state.budget), box.left), box.right), atTarget = Math.min(Math.max(y.at(state.target), box.top), box.bottom);
    parts.push(`<path class="rule" d="M${atBudget} ${box.top}V${box.bottom}"/><circle class="grip" cx="${atBudget}" cy="${box.top}" r="7"/>`);
    parts.push(`<path class="rule" stroke-dasharray="2 4" d="M${box.left} ${atTarget}H${box.right}"/><circle class="grip" cx="${box.right}" cy="${atTarget}" r="7"/>`);
    const taken = [[atBudget - 4, box.top, atBudget + 4, box.bottom], [box.left, atTarget - 3, box.right, atTarget + 3],
      [atBudget - 8, box.top - 8, atBudget + 8, box.top + 8], [box.right - 8, atTarget - 8, box.right + 8, atTarget + 8],
      ...explore.stairBoxes(front, x, y, box)];
    const marks = [], options = [];
    points.forEach((p, i) => {
      const look = p.method.family === "federated" ? "one" : "two", kind = look === "one" ? "circle" : "square";
      const px = x.at(p.cost), py = y.at(p.accuracy), is = p === chosen;
      if (is) marks.push(`<path class="spread" d="M${px} ${y.at(p.low)}V${y.at(p.high)}m-4 0h8M${px - 4} ${y.at(p.low)}h8"/>`);
      options.push(`<g role="option" id="m${i}" aria-selected="${is}" aria-label="${explore.escape(`${p.name}: ${explore.percent(p.accuracy, 2)}, ${c.words(p.cost)}`)}">` +
        explore.mark(kind, px, py, look, is ? 7 : 5) + (is ? `<circle class="ring" cx="${px}" cy="${py}" r="11"/>` : "") + "</g>");
      taken.push([px - 6, py - 6, px + 6, py + 6]);
    });
    if (best.length) marks.push(explore.mark("diamond", atBudget, y.at(best[0].reached), "three"));
    if (cheapest.length) marks.push(explore.mark("triangle", Math.max(x.at(cheapest[0].needs), box.left), atTarget, "three", 6));
    const wanted = [chosen, points.find((p) => p.name === hovered), ...front, ...(narrow ? [] : points)]
      .filter((p, i, all) => p && all.indexOf(p) === i)
      .map((p) => ({ x: x.at(p.cost), y: y.at(p.accuracy), words: p.name, must: p === chosen || p.name === hovered, look: p === chosen ? "strong" : "", off: p === chosen ? 14 : 10 }));
    const lines = [
      { x: atBudget, y: box.bottom - 12, words: `spend ${c.words(state.budget)}`, must: true, also: [[atBudget, box.top + 60]] },
      { x: box.right - 4, y: atTarget, words: `reach ${explore.percent(state.target)}`, must: true,
        also: [0.75, 0.5, 0.25, 0].map((share) => [box.left + share * (box.right - box.left), atTarget]) },
    ];
    parts.push(marks.join(""), explore.labels([...lines, ...wanted], box, taken));
    const grips = `<path class="catch draggable-x" d="M${atBudget} ${box.top}V${box.bottom}"/><path class="catch draggable-y" d="M${box.left} ${atTarget}H${box.right}"/>`;
    shown = { points, x, y, box, atBudget, atTarget };
    return { height, body: `<g aria-hidden="true">${parts.join("")}${grips}</g>${options.join("")}` };
  };

  const details = (state, task, points) => {
    const point = points.find((p) => p.name === state.method), { method } = point;
    const base = task.methods.find((m) => m.name === method.baseline);
    const total = (m, key) => explore.mean(m.runs.map((run) => run[key]));
    const times = (key) => explore.grouped(total(base, key) / total(method, key), 1);
    explore.byId("name").textContent = method.name;
    explore.byId("kindof").textContent =
      method.family === "federated" ? "federated averaging: models go down, updates come up"
        : "split learning: activations go up, gradients come down";
    explore.byId("factor").innerHTML = method === base
      ? "The float32 reference of its kind."
      : `Beside ${explore.escape(base.name)}: <b id="oursup">${times("up")}</b> times fewer bytes up, ` +
        `<b id="ourstotal">${times("nbytes")}</b> times fewer in total.`;
    explore.byId("printed").innerHTML = method.printed
      ? `<b>In print:</b> ${explore.escape(method.printed.words)} (${explore.escape(method.printed.source)}). ${explore.escape(method.printed.why)}.`
      : "";
    explore.byId("seeds").innerHTML = explore.table([
      ["seed", "accuracy", "sent", "waits"],
      ...method.runs.map((run) => [run.seed, explore.percent(atEnd(run, task), 2), explore.bytes(run.nbytes), explore.grouped(run.waits)]),
    ]);
    const kinds = method.runs[0].ledger.map(([kind, direction]) => [kind, direction]);
    const of = (i, column) => explore.mean(method.runs.map((run) => run.ledger[i][column]));
    explore.byId("ledger").innerHTML = explore.table([
      ["message", "way", "sent", "nominal", "entropy"],
      ...kinds.map(([kind, direction], i) => [kind, DIRECTIONS[direction], ...[3, 2, 4].map((column) => explore.bytes(of(i, column)))]),
      ["all", "", explore.bytes(total(method, "nbytes")), "", ""],
    ]);
    explore.byId("code").textContent = method.code;
  };

  const render = (state) => {
    const task = taskOf(state), points = pointsOf(task, state), c = COSTS[state.x];
    const list = explore.byId("method"), names = points.map((p) => p.name);
    if (!names.includes(state.method)) state.method = names.includes(METHOD) ? METHOD : names[0];
    if (list.dataset.names !== names.join("|")) {
      list.innerHTML = names.map((name) => `<option>${explore.escape(name)}</option>`).join("");
      list.dataset.names = names.join("|");
    }
    list.value = state.method;
    explore.byId("link").hidden = state.x !== "seconds";
    const best = bestWithin(points, task, state), cheapest = reaching(points, task, state);
    const point = points.find((p) => p.name === state.method);
    explore.picture(place, "", draw(state, task, points, best, cheapest));
    place.setAttribute("aria-activedescendant", `m${points.indexOf(point)}`);
    explore.byId("chosen").textContent =
      `${point.name}: ${explore.percent(point.accuracy, 2)} [${explore.percent(point.low, 2)}, ${explore.percent(point.high, 2)}] ` +
      `for ${c.words(point.cost)}${state.x === "up" ? " up" : ""}, ${point.method.runs.length} seeds.`;
    explore.byId("atbudget").textContent = best.length
      ? `With ${c.words(state.budget)} the best is ${best[0].name}: ${explore.percent(best[0].reached, 2)} (stopped there).`
      : `${c.words(state.budget)} buys no result of any method here: move the line to the right.`;
    explore.byId("attarget").textContent = cheapest.length
      ? `${explore.percent(state.target)} is cheapest with ${cheapest[0].name}: ${c.words(cheapest[0].needs)}; ` +
        `${cheapest.length} of ${points.length} methods get there with every seed.`
      : `No method reaches ${explore.percent(state.target)} with every seed.`;
    explore.byId("settings").textContent = task.settings;
    details(state, task, points);
    const front = new Set(explore.front(points).map((p) => p.name));
    explore.byId("all").innerHTML = explore.table(
      [["method", "accuracy", "worst and best seed", c.title, "front"],
        ...points.map((p) => [explore.escape(p.name), explore.percent(p.accuracy, 2),
          `${explore.percent(p.low, 2)}, ${explore.percent(p.high, 2)}`, c.words(p.cost), front.has(p.name) ? "yes" : ""])],
      points.indexOf(point));
  };

  const set = explore.page({
    defaults: { data: "mnist", partition: "IID", x: "nbytes", method: METHOD, budget: 0, target: 0.96,
      rateUp: 10, rateDown: 50, latency: 20 },
    stops: {
      budget: (state) => explore.stops(...COSTS[state.x].stops, 25),
      target: Array.from({ length: 100 }, (_, i) => +(0.5 + i / 200).toFixed(3)),
      rateUp: RATES, rateDown: RATES, latency: LATENCIES,
    },
    words: {
      budget: (value, state) => COSTS[state.x].words(value),
      target: (value) => explore.percent(value),
      rateUp: (value) => `${value} Mbit/s`, rateDown: (value) => `${value} Mbit/s`, latency: (value) => `${value} ms`,
    },
    repair: (state) => {
      if (!COSTS[state.x]) state.x = "nbytes";
      // a budget of bytes is none of seconds: with another cost it begins anew, unless a new one came with it
      const stale = last.x && last.x !== state.x && last.budget === state.budget;
      if (!state.budget || stale) state.budget = COSTS[state.x].start;
      last = { x: state.x, budget: state.budget };
      return state;
    },
    render,
  });

  /* The picture with a mouse, a finger or a key. Listeners sit on the place, since its SVG is drawn anew. */
  const where = (event) => {
    const corner = place.getBoundingClientRect();
    return [event.clientX - corner.left, event.clientY - corner.top];
  };
  const nearest = ([px, py], reach) => {
    const far = (p) => Math.hypot(shown.x.at(p.cost) - px, shown.y.at(p.accuracy) - py);
    const point = shown.points.reduce((a, b) => (far(b) < far(a) ? b : a));
    return far(point) <= reach ? point : null;
  };
  const drag = ([px, py]) => {
    if (dragged === "budget") set({ budget: shown.x.of(px) });
    else set({ target: shown.y.of(py) });
  };
  place.addEventListener("pointerdown", (event) => {
    const at = where(event), point = nearest(at, 12);
    if (point) set({ method: point.name });
    else if (Math.abs(at[0] - shown.atBudget) < 12) dragged = "budget";
    else if (Math.abs(at[1] - shown.atTarget) < 12) dragged = "target";
    else if (nearest(at, 24)) set({ method: nearest(at, 24).name });
    if (dragged) { place.setPointerCapture(event.pointerId); drag(at); }
  });
  place.addEventListener("pointermove", (event) => {
    if (dragged) return drag(where(event));
    const point = event.pointerType === "mouse" ? nearest(where(event), 16) : null;
    if ((point ? point.name : "") !== hovered) { hovered = point ? point.name : ""; set({}); }
  });
  place.addEventListener("pointerup", () => { dragged = ""; });
  place.addEventListener("pointercancel", () => { dragged = ""; });
  place.addEventListener("pointerleave", () => { if (hovered) { hovered = ""; set({}); } });
  place.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -1e9, End: 1e9 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const names = shown.points.map((p) => p.name), now = names.indexOf(explore.byId("method").value);
    set({ method: names[Math.min(Math.max(now + steps[event.key], 0), names.length - 1)] });
  });
})();
