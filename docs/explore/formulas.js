/* The numbers behind the figures: plain functions of plain values, nothing of the page.

   Each is the twin of a Python function that is named above it; tests/explore holds them equal.

   No ES modules: to a page from a folder (file://) Chromium refuses `import` and `fetch`, but not `src`. */
"use strict";

const explore = { data: {} };

/* ---- fltoolkit.units ---- */

explore.grouped = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/* amount("nbytes", value): 1 kB is 1000 B. */
explore.bytes = (value) => {
  const power = [1e3, 1e6, 1e9, 1e12].filter((size) => value >= size).length;
  const unit = ["B", "kB", "MB", "GB", "TB"][power];
  return `${explore.grouped(value / 1000 ** power, power ? 1 : 0)} ${unit}`;
};

explore.percent = (value, digits = 1) => `${explore.grouped(100 * value, digits)} %`;

explore.signed = (value, digits) => `${value.toFixed(digits) < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;

explore.flops = (value) => {
  const power = [1e3, 1e6, 1e9, 1e12, 1e15].filter((size) => value >= size).length;
  return `${+(value / 1000 ** power).toPrecision(3)} ${["", "k", "M", "G", "T", "P"][power]}FLOP`;
};

explore.seconds = (value) => {
  if (value < 1) return `${+(1000 * value).toPrecision(2)} ms`;
  if (value < 120) return `${+value.toPrecision(3)} s`;
  if (value < 7200) return `${explore.grouped(value / 60, 1)} min`;
  if (value < 172800) return `${explore.grouped(value / 3600, 1)} h`;
  return `${explore.grouped(value / 86400, 1)} days`;
};

explore.mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/* ---- fltoolkit.intervals ---- */

/* t_quantile: the half-width of an interval over `num` values, in standard errors. */
explore.student = (num, level = 0.95) => {
  const freedom = num - 1, odd = freedom % 2;
  let low = 0, high = Math.PI / 2, angle = 0;
  for (let halving = 0; halving < 60; halving++) {
    angle = (low + high) / 2;
    let term = odd ? Math.cos(angle) : 1, total = 0;
    for (let k = odd; k < freedom - 1; k += 2) {
      total += term;
      term *= Math.cos(angle) ** 2 * (k + 1) / (k + 2);
    }
    total *= Math.sin(angle);
    if ((odd ? 2 / Math.PI * (angle + total) : total) > level) high = angle;
    else low = angle;
  }
  return Math.sqrt(freedom) * Math.tan(angle);
};

/* interval: the mean of values, and the ends of its interval, cut to `most`; of one value it is the value. */
explore.interval = (values, most = Infinity, level = 0.95) => {
  const num = values.length, value = explore.mean(values);
  const error = num > 1 ? Math.sqrt(explore.mean(values.map((v) => (v - value) ** 2)) / (num - 1)) : 0;
  const half = error && explore.student(num, level) * error;
  return { value, low: value - half, high: Math.min(value + half, most), num };
};

/* paired: differences, by seed. */
explore.paired = (values, others) => Object.keys(values).filter((seed) => seed in others).map((seed) => values[seed] - others[seed]);

/* ---- fltoolkit_research.analysis: a run is {nbytes, up, down, waits, curve: [[bytes, score]]} ---- */

/* Curves are stored with the bytes since the evaluation before. */
explore.summed = (tasks) => {
  for (const { curve } of tasks.flatMap((t) => t.methods.flatMap((m) => m.runs))) curve.reduce((sum, at) => (at[0] += sum), 0);
  return tasks;
};

/* A run as it was at its i-th evaluation. Only its bytes in total are stored: directions are shared as at the end,
   and rounds, waits and computing grow by equal steps. */
explore.until = (run, i) => {
  const last = run.curve.length - 1, [nbytes] = run.curve[i];
  if (i === last) return run;
  const sent = run.curve[last][0] ? nbytes / run.curve[last][0] : 0, done = (i + 1) / (last + 1), then = { ...run, nbytes };
  for (const key of ["up", "down", "uplink"]) then[key] *= sent;
  for (const key of ["rounds", "waits", "flops"]) then[key] *= done;
  return then;
};

/* value_within: the last value measured before more than `budget` was spent; null if none. Scores are
   divided by `numTest`: correct samples become an accuracy. */
explore.valueWithin = (run, budget, numTest = 1, cost = (r) => r.nbytes) => {
  let found = null;
  for (const [i, [, score]] of run.curve.entries()) {
    if (cost(explore.until(run, i)) > budget) break;
    found = score / numTest;
  }
  return found;
};

/* bytes_to_reach, for any cost: what was spent when a run first reached `goal`; null if it never did. `sign`
   is -1 where less is better, as for a loss. */
explore.costToReach = (run, goal, numTest = 1, cost = (r) => r.nbytes, sign = 1) => {
  const hit = run.curve.findIndex(([, score]) => sign * (score / numTest) >= sign * goal);
  return hit < 0 ? null : cost(explore.until(run, hit));
};

/* seconds_on: bytes / rate + waits * latency, here with a rate for each direction, in bytes per second.
   From client to client the slower of the two counts. docs/links.md holds it against a clock. */
explore.secondsOn = (run, rateUp, rateDown, latency) => {
  const across = run.nbytes - run.up - run.down;
  const sending = run.up / rateUp + run.down / rateDown + across / Math.min(rateUp, rateDown);
  return sending + run.waits * latency;
};

/* front: of points {cost, value, num, seeds: {seed: value}}, those that are better than all cheaper ones, and better by more
   than noise than the front point before, after Holm's correction over all points; `sign` as above. Each gets a `star`, in
   brackets if noise had no part in that. */
explore.front = (points, sign = 1) => {
  let open = points.length + 1, left = points.length, best = [];
  while (left < open) {
    open = left;
    [best, left] = explore.frontAt(points, sign, 1 - 0.05 / Math.max(open, 1));
  }
  for (const { point, sure } of best) point.star = sure ? "yes" : "(yes)";
  return best.map(({ point }) => point);
};

/* The front with intervals of this level, and how many differences they do not tell from 0. */
explore.frontAt = (points, sign, level) => {
  const best = [], several = points.some(({ num }) => num > 1);
  let leading = null, open = 0;
  for (const point of [...points].sort((a, b) => a.cost - b.cost || sign * (b.value - a.value))) {
    const gains = best.map((other) => explore.paired(point.seeds, other.point.seeds).map((gain) => sign * gain)).reverse();
    const i = Math.max(gains.findIndex((each) => each.length > 1), 0), before = best[best.length - 1 - i]?.point;
    const known = before && gains[i].length > 1, gain = known && explore.interval(gains[i], Infinity, level);
    open += known && gain.low <= 0 && gain.high >= 0 ? 1 : 0;
    if (leading && sign * (point.value - leading.value) <= 0) continue;
    if (!before || (known ? gain.low : sign * (point.value - before.value)) > 0) best.push({ point, sure: !before || known });
    if (!several || point.num > 1) leading = point;
  }
  return [best, open];
};

/* ---- fltoolkit.cost: a model is {parameters, parametersClient, cutWidth}; values take 4 bytes ---- */

/* split_nbytes: 2 p q b E + (K E - 1) B; a client that is alone hands nothing on. */
explore.splitBytes = (model, { samples, clients, epochs }) => {
  const handovers = clients > 1 ? clients * epochs - 1 : 0;
  return samples * 2 * model.cutWidth * 4 * epochs + handovers * 4 * model.parametersClient;
};

/* federated_nbytes: in every round each client gets and sends the model. */
explore.federatedBytes = (model, { clients, rounds }) => 2 * 4 * model.parameters * clients * rounds;

/* sums_of: products, sums and counts, of two classes; each owner sends them once. */
explore.oneSumBytes = ({ columns, clients }) => 4 * clients * (columns * (columns + 1) / 2 + 2 * columns + 2);

/* Large-batch SGD: the same at every step. */
explore.largeBatchBytes = (model, { samples, clients, epochs, batchSize }) =>
  explore.federatedBytes(model, {
    clients,
    rounds: epochs * Math.ceil(samples / (clients * batchSize)),
  });

/* Total bytes of all methods, and crossover_clients: from how many clients on splitting sends
   fewer than federating (null: never). From two clients on both are straight lines in the number of clients. */
explore.totals = (model, setting) => {
  const excess = (clients) =>
    explore.splitBytes(model, { ...setting, clients }) -
    explore.federatedBytes(model, { ...setting, clients });
  let crossover = null;
  if (setting.samples >= 2 && excess(setting.samples) < 0) {
    let low = 2, high = setting.samples; // the first from which on the line is below zero
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (excess(middle) < 0) high = middle;
      else low = middle + 1;
    }
    crossover = low;
  }
  return {
    largeBatch: explore.largeBatchBytes(model, setting),
    federated: explore.federatedBytes(model, setting),
    split: explore.splitBytes(model, setting),
    oneSum: explore.oneSumBytes(setting),
    crossover,
  };
};

/* Messages that follow one another, as Record["num_waits"] counts them. Federated: the model down and
   the updates up, clients side by side. A relay: activations up, labels up and gradients down at
   every step, and a bottom handed on at every turn but the first. */
explore.waits = ({ samples, clients, epochs, rounds, batchSize }) => {
  const steps = epochs * clients * Math.ceil(samples / clients / batchSize);
  const largeBatchSteps = epochs * Math.ceil(samples / (clients * batchSize));
  return {
    largeBatch: 2 * largeBatchSteps,
    federated: 2 * rounds,
    oneSum: 1,
    split: 3 * steps + (clients > 1 ? clients * epochs - 1 : 0),
  };
};
