/* A figure of methods: what each one costs, what it brings, and two lines to drag: a budget and a goal.

   Not here: which runs are shown and in which words (pareto.js, language.js), the numbers (formulas.js). */
"use strict";

/* Run a page. Data: `tasks` of {target, settings, methods}, a method is {name, family, baseline, code, ledger, runs}, a
   run as in formulas.js and, where it is not the curve's last one, its `value` at the end.
   - `taskOf(state)`, and `choosers`, the controls that choose it
   - `costs[key]`: {title, words, tick, stops, start, from, suffix}; `key` is that of a run, or "seconds"
   - `metric`: {sign, most, name, title, short, long, cell, gap, unit, tick, scale, stops}
   - `families(task)`: [[family, words, what it is, look]]
   - `startWith(task, points)`: the method that is chosen first; `relabel(task)`: words of other controls
   - `across`: what a message is called that goes neither up nor down
   - `uplink`: the key whose factor stands beside the total; `about(method)`: more about a method;
     `ledger(method)`: more rows */
explore.tradeoff = (page) => {
  const { byId, escape, bytes, grouped, mean, mark, table } = explore;
  const { taskOf, costs, metric } = page, { sign } = metric, ways = { up: "up", down: "down", across: page.across };
  const place = byId("plot");
  let shown = null; // what the picture shows now: {points, x, y, box}
  let hovered = "", dragged = "";

  /* What a run cost, by the chosen measure; undefined where that is not known. */
  const cost = (run, state) => {
    if (state.x !== "seconds") return run[state.x];
    return explore.secondsOn(run, (state.rateUp * 1e6) / 8, (state.rateDown * 1e6) / 8, state.latency / 1000);
  };
  const scoreOf = (task) => task.num_test || 1;
  const atEnd = (run, task) => run.value ?? run.curve[run.curve.length - 1][1] / scoreOf(task);
  const seedsOf = ({ runs }, task) => Object.fromEntries(runs.map((run) => [run.seed, atEnd(run, task)]));
  const within = ({ num, low, high }, words = metric.cell) => (num > 1 ? ` [${words(low)}, ${words(high)}]` : "");
  const knows = (task, key) => task.methods.every(({ runs }) => runs.every((run) => (run[key === "seconds" ? "waits" : key] ?? null) !== null));

  const pointsOf = (task, state) =>
    task.methods
      .map((method) => {
        const seeds = seedsOf(method, task);
        return { method, name: method.name, seeds, cost: mean(method.runs.map((run) => cost(run, state))), ...explore.interval(Object.values(seeds), metric.most) };
      })
      .sort((a, b) => a.cost - b.cost);

  /* The best that a budget buys: runs are stopped there, if they were tested on the way. */
  const bestWithin = (points, task, state) => {
    const found = points.map((point) => {
      const each = point.method.runs.map((run) => explore.valueWithin(run, state.budget, scoreOf(task), (r) => cost(r, state)));
      return { ...point, reached: each.includes(null) ? null : explore.interval(each, metric.most) };
    });
    return found.filter((p) => p.reached).sort((a, b) => sign * (b.reached.value - a.reached.value));
  };

  /* What each method needs to reach the target with every seed; null if one never does. */
  const withNeeds = (points, task, state) =>
    points.map((point) => {
      const each = point.method.runs.map((run) => explore.costToReach(run, state.target, scoreOf(task), (r) => cost(r, state), sign));
      return { ...point, needs: each.includes(null) ? null : mean(each) };
    });

  const scaleOf = (points, task, state, box, most) => {
    const first = withNeeds(points, task, { ...state, target: task.target }).map((p) => p.needs);
    const paid = [...points.map((p) => p.cost), ...first].filter((v) => v > 0);
    const some = paid.length ? paid : [1], low = costs[state.x].from ?? 0.6 * Math.min(...some);
    return explore.costScale(low, 1.5 * Math.max(...some), !(points[0].cost > 0), box, most);
  };

  const draw = (state, task, points, best, cheapest) => (width) => {
    const { narrow, height, box } = explore.frame(width, 480, 400), c = costs[state.x];
    const x = scaleOf(points, task, state, box, narrow ? 4 : 8);
    const values = points.flatMap((p) => Object.values(p.seeds)), y = metric.scale(Math.min(...values), Math.max(...values), box.bottom, box.top);
    const front = explore.front(points, sign), chosen = points.find((p) => p.name === state.method);
    const looks = Object.fromEntries(page.families(task).map(([family, , , look]) => [family, look]));
    const parts = [explore.axes(box, { scale: x, words: c.tick || explore.brief(c.words), title: `${c.title} (log)` },
      { scale: y, words: metric.tick, title: metric.title })];
    parts.push(explore.clip(box), `<path class="front" d="${explore.stairs(front, x, y, box)}"/>`);
    for (const run of chosen.method.runs.filter((r) => r.curve.length > 1)) {
      const path = explore.path(run.curve.map(([, score], i) => [x.at(cost(explore.until(run, i), state)), y.at(score / scoreOf(task))]));
      parts.push(`<path class="line thin grey" clip-path="url(#inside)" d="${path}"/>`);
    }
    const inside = (at, low, high) => Math.min(Math.max(at, low), high);
    const atBudget = inside(x.at(state.budget), box.left, box.right), atTarget = inside(y.at(state.target), box.top, box.bottom);
    parts.push(`<path class="rule" d="M${atBudget} ${box.top}V${box.bottom}"/><circle class="grip" cx="${atBudget}" cy="${box.top}" r="7"/>`);
    parts.push(`<path class="rule" stroke-dasharray="2 4" d="M${box.left} ${atTarget}H${box.right}"/><circle class="grip" cx="${box.right}" cy="${atTarget}" r="7"/>`);
    const taken = [[atBudget - 4, box.top, atBudget + 4, box.bottom], [box.left, atTarget - 3, box.right, atTarget + 3],
      [atBudget - 8, box.top - 8, atBudget + 8, box.top + 8], [box.right - 8, atTarget - 8, box.right + 8, atTarget + 8],
      ...explore.stairBoxes(front, x, y, box)];
    const marks = [], options = [];
    points.forEach((p, i) => {
      const [kind, look] = looks[p.method.family], px = x.at(p.cost), py = y.at(p.value), is = p === chosen;
      if (is && p.low < p.high) marks.push(explore.spread(px, ...[p.low, p.high].map((v) => inside(y.at(v), box.top, box.bottom))));
      options.push(explore.option(i, is, `${p.name}: ${metric.long(p.value)}, ${c.words(p.cost)}`, kind, px, py, look));
      taken.push(explore.around(px, py, is ? 11 : 6));
    });
    if (best.length) marks.push(mark("diamond", atBudget, y.at(best[0].reached.value), "three"));
    if (cheapest.length) marks.push(mark("triangle", Math.max(x.at(cheapest[0].needs), box.left), atTarget, "three", 6));
    const wanted = [chosen, points.find((p) => p.name === hovered), ...front, ...(narrow ? [] : points)]
      .filter((p, i, all) => p && all.indexOf(p) === i)
      .map((p) => ({ x: x.at(p.cost), y: y.at(p.value), words: p.name, must: p === chosen || p.name === hovered, look: p === chosen ? "strong" : "", off: p === chosen ? 14 : 10 }));
    const lines = [
      { x: atBudget, y: box.bottom - 12, words: `spend ${c.words(state.budget)}`, must: true, also: [[atBudget, box.top + 60]] },
      { x: box.right - 4, y: atTarget, words: `reach ${metric.short(state.target)}`, must: true,
        also: [0.75, 0.5, 0.25, 0].map((share) => [box.left + share * (box.right - box.left), atTarget]) },
    ];
    parts.push(marks.join(""), explore.labels([...lines, ...wanted], box, taken));
    const grips = `<path class="catch draggable-x" d="M${atBudget} ${box.top}V${box.bottom}"/><path class="catch draggable-y" d="M${box.left} ${atTarget}H${box.right}"/>`;
    shown = { points, x, y, box, atBudget, atTarget };
    return { height, body: `<g aria-hidden="true">${parts.join("")}${grips}</g>${options.join("")}` };
  };

  const legend = (task) => {
    const has = ([family]) => task.methods.some((method) => method.family === family);
    explore.legend([
      ...page.families(task).filter(has).map(([, words, , look]) => [look, words]),
      [["diamond", "three"], "best for the money"], [["triangle", "three"], "first at the target"],
      ['<svg width="26" height="14" aria-hidden="true"><path class="front" d="M1 7h24"/></svg>', "front: better than all that costs less, beyond noise"],
    ]);
  };

  const details = (task, point) => {
    const { method } = point, base = task.methods.find((m) => m.name === method.baseline);
    const total = (m, key) => mean(m.runs.map((run) => run[key]));
    const times = (key) => grouped(total(base, key) / total(method, key), 1);
    const [, , kind] = page.families(task).find(([family]) => family === method.family);
    byId("name").textContent = method.name;
    byId("kindof").textContent = kind;
    byId("factor").innerHTML = method === base ? "The float32 reference of its kind."
      : !total(method, "nbytes") ? "It sends nothing."
        : !base ? ""
          : `Beside ${escape(base.name)}: <b id="oursup">${times(page.uplink)}</b> times fewer bytes up, ` +
            `<b id="ourstotal">${times("nbytes")}</b> times fewer in total.`;
    if (task.data_nbytes && total(method, "nbytes")) {
      byId("factor").innerHTML += ` <b>${grouped(total(method, "nbytes") / task.data_nbytes, 2)}</b> ` +
        `times the data (${bytes(task.data_nbytes)} without loss).`;
    }
    const gains = base && base !== method ? explore.paired(seedsOf(method, task), seedsOf(base, task)) : [], gain = explore.interval(gains);
    byId("printed").innerHTML = (gains.length ? `<b id="gap">${metric.gap(gain.value)}</b>${within(gain, metric.gap)} ${metric.unit} ` +
      `beside ${escape(base.name)}, paired by seed (${gains.length}). ` : "") + page.about(method);
    byId("seeds").innerHTML = table([
      ["seed", metric.name, "sent", "waits"],
      ...method.runs.map((run) => [run.seed, metric.cell(atEnd(run, task)), bytes(run.nbytes), grouped(run.waits ?? NaN)]),
    ]);
    const { ledger } = method, more = page.ledger ? page.ledger(method) : [];
    const full = ledger.every(([, , nominal]) => nominal !== null);
    byId("ledger").innerHTML = table([
      ["message", "way", "sent", ...(full ? ["nominal", "bound if independent"] : [])],
      ...ledger.map(([kind, direction, nominal, sent, bound]) => [kind, ways[direction], ...(full ? [sent, nominal, bound] : [sent]).map(bytes)]),
      ["all", "", bytes(total(method, "nbytes")), ...(full ? ["", ""] : [])], ...more,
    ]);
    byId("code").textContent = method.code;
  };

  /* A measure that a task's runs do not know can not be chosen. */
  const repair = (state) => {
    const task = taskOf(state);
    for (const option of byId("x").options) option.disabled = option.hidden = !knows(task, option.value);
    if (!costs[state.x] || !knows(task, state.x)) state.x = "nbytes";
    const spent = pointsOf(task, state).map((p) => p.cost).filter((v) => v > 0);
    const { start } = costs[state.x], usual = spent[Math.floor((spent.length - 1) / 2)] ?? 1;
    if (!(state.budget > 0)) state.budget = start > spent[0] || state.x === "rounds" ? start : usual;
    if (!(state.target > 0)) state.target = task.target;
    return state;
  };

  const render = (state) => {
    const task = taskOf(state), points = withNeeds(pointsOf(task, state), task, state), c = costs[state.x];
    const list = byId("method"), names = points.map((p) => p.name);
    if (!names.includes(state.method)) state.method = page.startWith(task, points);
    if (list.dataset.names !== names.join("|")) {
      list.innerHTML = names.map((name) => `<option>${escape(name)}</option>`).join("");
      list.dataset.names = names.join("|");
    }
    list.value = state.method;
    byId("link").hidden = state.x !== "seconds";
    const best = bestWithin(points, task, state);
    const cheapest = points.filter((p) => p.needs !== null).sort((a, b) => a.needs - b.needs);
    const point = points.find((p) => p.name === state.method), { length } = point.method.runs;
    const stopped = task.methods.some(({ runs }) => runs[0].curve.length > 1) ? "stopped there" : "its whole run";
    if (page.relabel) page.relabel(task);
    legend(task);
    explore.picture(place, "", draw(state, task, points, best, cheapest));
    place.setAttribute("aria-activedescendant", `m${points.indexOf(point)}`);
    byId("chosen").textContent =
      `${point.name}: ${metric.long(point.value)}${within(point)} for ${c.words(point.cost)}${c.suffix || ""}, ` +
      `${length} seed${length > 1 ? "s" : ""}.`;
    byId("atbudget").textContent = best.length
      ? `With ${c.words(state.budget)} the best is ${best[0].name}: ${metric.long(best[0].reached.value)}${within(best[0].reached)} (${stopped}).`
      : `${c.words(state.budget)} is too little for each method here: move the line to the right.`;
    byId("attarget").textContent = cheapest.length
      ? `${metric.short(state.target)} is cheapest with ${cheapest[0].name}: ${c.words(cheapest[0].needs)}; ` +
        `${cheapest.length} of ${points.length} methods get there with every seed.`
      : `No method reaches ${metric.short(state.target)} with every seed.`;
    byId("settings").textContent = task.settings;
    details(task, points.find((p) => p.name === hovered) || point);
    byId("all").innerHTML = table(
      [["method", metric.name, "95 % interval", c.title, `to reach ${metric.short(state.target)}`, "front"],
        ...points.map((p) => [escape(p.name), metric.cell(p.value), within(p),
          c.words(p.cost), p.needs === null ? "never" : c.words(p.needs), p.star || ""])],
      points.indexOf(point));
  };

  const anew = Object.fromEntries(page.choosers.map((name) => [name, ["budget", "target"]]));
  const set = explore.page({
    defaults: { ...page.defaults, x: "nbytes", budget: 0, target: 0, rateUp: 10, rateDown: 50, latency: 20 },
    stops: {
      budget: (state) => explore.stops(...costs[state.x].stops, 25),
      target: (state) => metric.stops(taskOf(state)),
      rateUp: explore.RATES, rateDown: explore.RATES, latency: explore.LATENCIES,
    },
    words: {
      budget: (value, state) => costs[state.x].words(value),
      target: metric.short,
      rateUp: (value) => `${value} Mbit/s`, rateDown: (value) => `${value} Mbit/s`, latency: (value) => `${value} ms`,
    },
    renew: { x: ["budget"], ...anew },
    repair,
    render,
  });

  /* The picture with a mouse, a finger or a key. */
  const where = (event) => explore.where(place, event);
  const nearest = ([px, py], reach) => {
    const far = (p) => Math.hypot(shown.x.at(p.cost) - px, shown.y.at(p.value) - py);
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
  explore.arrows(place, () => ({ names: shown.points.map((p) => p.name), now: byId("method").value }), (method) => {
    hovered = ""; // the mouse may rest on another mark
    set({ method });
  });
};
