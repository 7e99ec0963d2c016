/* The playground: choices, a worker that trains (trainer.js, wire.js), and its picture. */
"use strict";

/* The worker's side: it trains a slice at a time, so that it hears what the page says in between. */
explore.serve = (trainer, digits, post) => {
  let data = null, run = null, events = null, running = false, pace = "fast", watch = false, round = 0, timer = 0;
  let news = [], posted = 0, looked = 0, guessed = 0, single = false;
  const now = () => performance.now();

  const inside = () => {
    const { setting, inside: seen } = run, first = run.network[0], units = 32;
    const found = { weights: Array.from({ length: units }, (_, j) => Float32Array.from({ length: 64 }, (_, i) => first.w[i * first.out + 4 * j])) };
    if (setting.how === "split" && seen.before) {
      const wide = seen.wide, few = (values) => values.slice(0, 4 * wide);
      Object.assign(found, { wide, images: seen.rows.slice(0, 4).map((row) => data.pixels.slice(64 * row, 64 * row + 64)), before: few(seen.before), after: few(seen.after) });
    }
    if (setting.how === "averaged" && seen.update) {
      const part = (values) => values && values.slice(0, 64 * 24);
      Object.assign(found, { owner: seen.owner, before: part(seen.update[0].data), after: part(seen.updateAfter[0].data), owed: part(seen.owed && seen.owed[0]) });
      found.images = seen.shares[seen.owner].slice(0, 4).map((row) => data.pixels.slice(64 * row, 64 * row + 64));
    }
    if (watch && setting.how !== "one" && now() - guessed > 700) {
      guessed = now();
      if (setting.how === "split") {
        const rows = Array.from({ length: 8 }, (_, i) => data.numTrain + 11 * i);
        found.truth = rows.map((row) => data.pixels.slice(64 * row, 64 * row + 64));
        found.guesses = trainer.guesses(run, rows);
      } else if (seen.update) {
        found.truth = seen.shares[seen.owner].slice(0, 8).map((row) => data.pixels.slice(64 * row, 64 * row + 64));
        found.guesses = trainer.mixtures(seen.updateAfter, 8);
      }
    }
    return found;
  };

  const tell = (more = {}) => {
    if (!run) return;
    const look = now() - looked > 90 || more.ended || !running;
    if (look) looked = now();
    post({ round, events: news, running, inside: look ? inside() : null, ...more });
    news = [];
    posted = now();
  };

  /* Go on to the next event that is worth telling; false at the end. */
  const advance = () => {
    try {
      const { value, done } = events.next();
      if (done) { running = false; tell({ ended: true }); return false; }
      if (value.kind === "work") return true;
      news.push(value);
      if (single && value.kind === "record") { running = single = false; tell(); return false; }
    } catch (error) {
      running = false;
      tell({ ended: true, failed: error.message });
      return false;
    }
    return true;
  };

  const slice = () => {
    timer = 0;
    const begin = now(), waits = pace === "slow" ? 900 : 0;
    while (running && now() - begin < 14) {
      const before = news.length;
      if (!advance()) return;
      if (waits && news.length > before && news[news.length - 1].kind === "message") break;
    }
    if (now() - posted > 30 || waits) tell();
    if (running) timer = setTimeout(slice, news.length ? 0 : waits);
  };

  const begin = (setting) => {
    data = data || trainer.readDigits(digits);
    ({ run, events } = trainer.start(setting, data));
    news = [];
    looked = guessed = 0;
  };
  return (order) => {
    if (order.round !== undefined) round = order.round;
    if (order.watch !== undefined) { watch = order.watch; guessed = 0; }
    if (order.pace) pace = order.pace;
    if (order.setting) { running = false; begin(order.setting); tell(); }
    if (order.alone) {
      data = data || trainer.readDigits(digits);
      post({ alone: order.alone, accuracy: trainer.alone(data, order.alone) });
    }
    if (order.pause) { running = false; tell(); }
    if ((order.go || order.step) && run) {
      running = true;
      single = !!order.step;
    }
    if (running && !timer) timer = setTimeout(slice, 0);
    else if (run && order.watch !== undefined) tell();
  };
};

(() => {
const { byId, escape, bytes, percent, grouped, mark, picture, scale } = explore, trainer = explore.makeTrainer(explore.wire), DIGITS = explore.data.digits, SEND = DIGITS.data_nbytes;
const place = byId("plot"), scene = byId("scene"), root = document.documentElement;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const BITS = [1, 2, 3, 4, 5, 6, 7, 8, 32], KEPT = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];
let orders = null, chosen = null, round = 0, running = false, ended = false, failed = "", set = () => {};
let path = [], last = null, latest = null, best = 0, seen = {}, alone = {}, tried = [], packets = [], frames = 0, drawn = 0;

/* the worker, made from text that the page has: see wire.js */

const makeWorker = (hear) => {
  const text = `const wire = (${explore.makeWire})();
    const trainer = (${explore.makeTrainer})(wire); onmessage = (e) => self.order(e.data);
    self.order = (${explore.serve})(trainer, ${JSON.stringify({ pixels: DIGITS.pixels, labels: DIGITS.labels })}, (news) => postMessage(news));`;
  try {
    const worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
    worker.onmessage = (event) => hear(event.data);
    worker.onerror = () => { orders = explore.serve(trainer, DIGITS, hear); };
    return (order) => worker.postMessage(order);
  } catch { // no worker here: the page itself trains, a slice at a time
    return explore.serve(trainer, DIGITS, hear);
  }
};

/* choices in words and in Python */

const isOne = (state) => state.how === "one", isSplit = (state) => state.how === "split";
const settingOf = (s) => ({ how: s.how, cut: +s.cut, owners: s.owners, skewed: s.skewed, bitsUp: s.bitsUp, bitsDown: s.bitsDown, kept: s.kept,
  owed: s.owed && (s.kept < 1 || s.bitsUp < 32), threshold: s.threshold, speak: +s.speak, seed: s.seed, dataBytes: SEND, effort: { lr: s.lr } });

const stages = (bits, kept) => [...(kept < 1 ? [`TopK(${kept})`] : []), ...(bits < 32 ? [`Quantize(${bits})`] : [])];
const codecText = (bits, kept, owed) => {
  const inner = `Pipeline(${stages(bits, kept).join(", ")})`;
  return owed ? `ErrorFeedback(${inner})` : inner;
};
const code = (s) => {
  const codecs = [], split = isSplit(s), speakers = Math.max(1, Math.round(+s.speak * s.owners)), shared = s.how === "averaged";
  if (isOne(s)) for (const kind of ["samples", "labels"]) codecs.push([kind, "Pipeline(Narrow(), Distinct(), Smallest())"]);
  if (!isOne(s) && stages(s.bitsUp, s.kept).length) codecs.push([split ? "activations" : "update", codecText(s.bitsUp, s.kept, shared && s.owed)]);
  if (!isOne(s) && s.bitsDown < 32) codecs.push([split ? "gradients" : "model", codecText(s.bitsDown, 1, false)]);
  const lines = [
    isOne(s) ? 'NULL_MODELS["pooled"]' : `"${!split ? "fedavg" : s.threshold ? "split_async" : "split"}"`, 'data="digits"',
    split && `cut=${s.cut}`, shared && `num_clients=${s.owners}`, shared && s.skewed && 'partition="shards(2)"',
    shared && speakers < s.owners && `settings={"cohort_size": ${speakers}}`,
    ...(split ? ["rounds=15", "evaluations=3"] : ["rounds=25", "batch_size=10"]), `lr=${s.lr}`, split && s.threshold && `gate="LossGate(${s.threshold})"`,
    codecs.length && `codecs={\n${codecs.map(([kind, text]) => `        "${kind}": "${text}",\n`).join("")}    }`,
  ];
  return `from fltoolkit_research import ${isOne(s) ? "NULL_MODELS, " : ""}Experiment, records\n\nexperiment = Experiment(\n` +
    lines.filter(Boolean).map((line) => `    ${line},\n`).join("") +
    ")\nfor record in records(experiment):\n    print(f\"{record['nbytes']:>12,} bytes  {record['accuracy']:.1%}\")\n";
};

/* The bytes of messages with values like those that will come. */
const sizes = (s) => {
  const shape = isSplit(s) ? [32, trainer.CUT_WIDTHS[s.cut]] : null;
  const tree = shape ? [{ name: "h", shape, data: Float32Array.from({ length: shape[0] * shape[1] }, (_, i) => Math.sin(i * i)) }]
    : trainer.treeOf(trainer.makeNetwork(0));
  const size = (bits, kept, name) => explore.wire.codec({ bits, kept }).send(name ? [{ ...tree[0], name }] : tree).nbytes;
  return [size(s.bitsUp, s.kept), size(s.bitsDown, 1, shape && "g")];
};
const describe = (s) => {
  if (isOne(s)) return `All images are sent to Bob once, without loss, in ${bytes(SEND)}; then he trains alone.`;
  const [up, down] = sizes(s);
  if (isSplit(s)) return `For every 32 images Alice sends what her layers make of them, ${bytes(up)} up, and Bob answers how her numbers should change, ${bytes(down)} down.` +
    (s.threshold ? " Whenever the loss hardly changes in a pass, they send nothing." : "");
  return `In a round ${s.speak === "1" ? `${s.owners} owners` : "the drawn owners"} get the network (${bytes(down)}) and send back its change (${s.kept < 1 ? "about " : ""}${bytes(up)}).`;
};

/* missions: each solves itself */

const summary = () => ({ setting: chosen && { ...chosen }, path, last, best, watched: seen.error });
const within = (points, budget) => Math.max(0, ...points.filter((p) => p.nbytes <= budget).map((p) => p.accuracy));
const all = () => [...tried, summary()].filter((run) => run.setting && run.path.length);
const reached = (run, { nbytes, accuracy }) => run.setting.how !== "one" && run.path.find((p) => p.accuracy >= accuracy && p.nbytes <= nbytes);
const silenceOrBits = () => {
  const long = all().reverse().filter((r) => isSplit(r.setting) && r.last.round >= 5), silent = long.find((r) => r.setting.threshold && r.path.some((p) => p.state !== "A"));
  const bits = ({ bitsUp, bitsDown }) => Math.min(bitsUp, bitsDown), alike = ({ cut, effort }) => cut === silent.setting.cut && effort.lr === silent.setting.effort.lr;
  const few = silent && long.find((r) => !r.setting.threshold && alike(r.setting) && bits(r.setting) < bits(silent.setting));
  if (!few) return "";
  const budget = Math.min(silent.last.nbytes, few.last.nbytes), a = within(silent.path, budget), b = within(few.path, budget);
  return a && b && `At ${bytes(budget)}: with silence ${percent(a)}, with fewer bits ${percent(b)}. Here ${a > b ? "silence is" : "bits are"} ahead.`;
};
const oneBit = () => {
  const watched = (bits) => all().find((r) => isSplit(r.setting) && r.setting.bitsUp === bits && r.watched), [many, one] = [watched(32), watched(1)];
  return many && one ? `Beside somebody who guesses blindly, his error is ${percent(many.watched, 0)} as large with 32 bits, and ${percent(one.watched, 0)} with one.` : "";
};
const RULES = { silenceOrBits, oneBit, tenOwners: (r) => r.setting.how === "averaged" && r.setting.skewed && r.setting.owners === 10 };
const MISSIONS = [...document.querySelectorAll("#missions article")].map(({ dataset, children }) => {
  const { rule } = dataset, [task, hint, moral] = [...children].map((child) => child.textContent);
  const [nbytes, accuracy] = (dataset.goal || "").split(" ").map(Number), goal = accuracy ? { nbytes, accuracy } : null;
  const check = !goal ? RULES[rule] : () => {
    const hit = all().filter(RULES[rule] || Boolean).map((run) => reached(run, goal)).find(Boolean);
    return hit ? `${percent(hit.accuracy)} for ${bytes(hit.nbytes)}.` : "";
  };
  return { ...dataset, task, hint, moral, goal, check, start: JSON.parse(dataset.start) };
});
const notYet = ({ goal, advice, broke }) => { // what to do next
  if (!last || isOne(chosen)) return "";
  if (!goal) return advice && last.round >= 5 && chosen.threshold ? `<b>Half done.</b> ${advice}` : "";
  const found = within(path, goal.nbytes);
  if (path.length && path.at(-1).accuracy < best - 0.3) return `<b>The training broke.</b> ${broke}`;
  return last.nbytes <= goal.nbytes ? "" : `<b>Not yet.</b> ${bytes(goal.nbytes)} were spent ${found ? `at ${percent(found)} at best` : "before the first test"}. ${advice}`;
};
let advised = "";
const solved = new Set((() => { try { return JSON.parse(localStorage.getItem("fltoolkit-missions-solved") || "[]"); } catch { return []; } })());
byId("mission").innerHTML = MISSIONS.map((m, i) => `<option value="${i + 1}">${m.name}</option>`).join("") + '<option value="0">none: just play</option>';

const showMission = (state) => {
  const mission = MISSIONS[+state.mission - 1], task = byId("task"), verdict = byId("verdict");
  MISSIONS.forEach(({ name }, i) => { byId("mission").options[i].textContent = name + (solved.has(i + 1) ? " ✓" : ""); });
  if (!mission) { task.textContent = "Choose whatever you like."; verdict.textContent = ""; return; }
  const words = mission.check();
  if (words && !solved.has(+state.mission)) {
    solved.add(+state.mission);
    if (running) orders({ pause: true });
    try { localStorage.setItem("fltoolkit-missions-solved", JSON.stringify([...solved])); } catch { /* a private window */ }
    showMission(state);
  }
  if (task.dataset.mission !== state.mission) {
    task.dataset.mission = state.mission; advised = "";
    task.innerHTML = `${escape(mission.task)} <details><summary>a hint</summary>${escape(mission.hint)}</details>`;
  }
  const next = words ? `<b>✓ Solved.</b> ${escape(`${words} ${mission.moral}`)} Why: <a href="../../notebooks/${mission.book}.ipynb">notebook ${mission.book.split("_")[0]}</a>. ${solved.size < MISSIONS.length ? "Then choose another mission" : "All missions are solved"}.` : last ? (advised = notYet(mission)) : advised;
  if (verdict.innerHTML !== next) verdict.innerHTML = next;
  verdict.dataset.solved = !!words;
  const link = byId("notebook");
  link.href = link.href.replace(/\w+\.(ipynb|html)$/, `${mission.book}.$1`);
};

/* pictures */

const color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const sized = (canvas, width, height) => { // sharp on every screen
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
};
const grey = (v, low, high) => { const g = Math.round(255 * (1 - Math.min(Math.max((v - low) / (high - low || 1), 0), 1))); return `rgb(${g},${g},${g})`; };
const twoWays = (v, most) => { // blue above zero, orange below
  const share = Math.min(Math.abs(v) / (most || 1), 1), [r, g, b] = v > 0 ? [0, 114, 178] : [213, 94, 0];
  return `rgb(${[r, g, b].map((c) => Math.round(255 + (c - 255) * share)).join()})`;
};
const tile = (c, values, x, y, size, columns, paint) => {
  const cell = size / columns;
  for (let i = 0; i < values.length; i++) {
    c.fillStyle = paint(values[i]);
    c.fillRect(x + (i % columns) * cell, y + Math.floor(i / columns) * cell, cell + 0.5, cell + 0.5);
  }
};
const most = (values) => values.reduce((top, v) => Math.max(top, Math.abs(v)), 0);

const drawSent = () => {
  const canvas = byId("sent"), width = canvas.clientWidth || 300, { wide, images, before: h, after } = seen;
  if (!wide || !images) return sized(canvas, width, 40);
  const rows = images.length, size = 64, columns = wide === 640 ? 40 : wide === 128 ? 16 : 5, unit = (width - size - 24) / 2;
  const cell = Math.min(unit / columns, wide === 10 ? 24 : 12), tall = Math.max(size, (wide / columns) * cell), c = sized(canvas, width, rows * (tall + 8));
  const top = most(h), low = h.reduce((a, b) => Math.min(a, b), 0), paint = (v) => (low < 0 ? twoWays(v, top) : grey(v, 0, top));
  for (let s = 0; s < rows; s++) {
    const y = s * (tall + 8);
    tile(c, images[s], 0, y, size, 8, (v) => grey(v, 0, 16));
    tile(c, h.subarray(s * wide, (s + 1) * wide), size + 12, y, columns * cell, columns, paint);
    tile(c, after.subarray(s * wide, (s + 1) * wide), size + 24 + unit, y, columns * cell, columns, paint);
  }
};
const drawUpdates = () => {
  const canvas = byId("updates"), width = canvas.clientWidth || 300, { before: all, after, owed } = seen;
  const count = Math.max(4, Math.min(24, Math.floor(width / 44))), size = width / count - 4, c = sized(canvas, width, 3 * (size + 6));
  if (!all || seen.wide) return;
  const top = most(all);
  [all, after, owed].forEach((values, row) => {
    for (let k = 0; values && k < count; k++) tile(c, values.subarray(64 * k, 64 * k + 64), k * (size + 4), row * (size + 6), size, 8, (v) => twoWays(v, top));
  });
};
const drawWeights = () => {
  const canvas = byId("weights"), width = canvas.clientWidth || 300, list = seen.weights || [];
  const columns = Math.max(8, Math.min(16, Math.floor(width / 30))), size = width / columns - 4, c = sized(canvas, width, Math.ceil(32 / columns) * (size + 4));
  list.forEach((values, k) => tile(c, values, (k % columns) * (size + 4), Math.floor(k / columns) * (size + 4), size, 8, (v) => twoWays(v, 0.3)));
};
const drawGuess = (state) => {
  const canvas = byId("guess"), width = canvas.clientWidth || 300, size = Math.min(width / 8 - 6, 52), shown = seen.guesses && state.watch;
  const c = sized(canvas, width, shown ? 2 * size + 8 : 1);
  if (!shown) return;
  seen.truth.forEach((image, k) => tile(c, image, k * (size + 6), 0, size, 8, (v) => grey(v, 0, 16)));
  seen.guesses.forEach((image, k) => tile(c, image, k * (size + 6), size + 8, size, 8, (v) => grey(v, 0, 16)));
};

/* How many values lie in each of `bins` equal parts between `low` and `high`. */
const histogram = (values, low, high, bins) => {
  const counts = new Array(bins).fill(0);
  for (const v of values) counts[Math.min(bins - 1, Math.floor((bins * (v - low)) / (high - low || 1)))]++;
  return counts;
};
const drawLevels = (state) => {
  const box = byId("levels"), { owed, after: got } = seen, values = owed ? got.map((v, i) => v + owed[i]) : seen.before; // what is owed is sent, too
  if (!values || !box.clientWidth) { box.innerHTML = ""; byId("lost").textContent = ""; return; }
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b)), bins = histogram(values, low, high, 40);
  const levels = [...new Set(got)].sort((a, b) => a - b);
  const lost = values.reduce((sum, v, i) => sum + (v - got[i]) ** 2, 0) / (values.reduce((sum, v) => sum + v * v, 0) || 1);
  const words = `${levels.length > 256 ? "As many levels as numbers arrive" : `${levels.length} ${levels.length === 1 ? "level arrives" : "levels arrive"}`}; ${percent(lost, lost < 0.01 ? 2 : 1)} of the values' squares is lost.`;
  picture(box, `Histogram of values that should be sent. ${words}`, (width) => {
    const x = scale(low, high || low + 1, 8, width - 8), tall = Math.log1p(Math.max(...bins)), parts = [];
    bins.forEach((n, i) => { if (n) { const h = (82 * Math.log1p(n)) / tall; parts.push(`<rect x="${(8 + (i * (width - 16)) / 40).toFixed(1)}" y="${(86 - h).toFixed(1)}" width="${((width - 16) / 40 - 1).toFixed(1)}" height="${h.toFixed(1)}" fill="var(--line)"/>`); } });
    if (levels.length <= 256) for (const v of levels) parts.push(`<path d="M${x.at(v).toFixed(1)} ${levels.length > 16 ? 88 : 4}V98" stroke="var(--one)" stroke-width="1.5"/>`);
    return { height: 100, body: parts.join("") };
  });
  byId("lost").textContent = words;
};

/* A packet's area grows with its bytes. */
const places = (width, height) => {
  if (chosen && chosen.how === "averaged") {
    const n = chosen.owners, found = { server: [width / 2, 15, "server"] };
    for (let k = 1; k <= n; k++) found[`owner ${k}`] = [(width * (k - 0.5)) / n, height - 15, width < 72 * n ? String(k) : `owner ${k}`];
    return found;
  }
  return { Alice: [54, height / 2, "Alice"], Bob: [width - 54, height / 2, "Bob"] };
};
const nextMessage = (s) => { // what will be sent first
  if (isOne(s)) return { from: "Alice", to: "Bob", what: "samples", nbytes: SEND };
  const [up, down] = sizes(s);
  return isSplit(s) ? { from: "Alice", to: "Bob", what: "activations", nbytes: up } : { from: "server", to: "owner 1", what: "model", nbytes: down };
};
const drawScene = (time) => {
  const width = scene.clientWidth || 300, height = chosen && chosen.how === "averaged" ? (width < 500 ? 84 : 128) : 84, c = sized(scene, width, height), at = places(width, height);
  const ink = color("ink"), paper = color("paper"), wire = color("line"), up = color("one"), down = color("two"), hub = at.server || at.Bob;
  packets = packets.filter((p) => at[p.from] && at[p.to] && time - p.begun < p.takes);
  const still = { ...latest, begun: time, rests: true }, shown = packets.length ? packets : [still]; // between two messages the last one stays
  const shareOf = (p) => (p.rests || calm.matches ? 0.5 : Math.min(Math.max((time - p.begun) / p.takes, 0), 1)), middle = (p) => Math.abs(shareOf(p) - 0.5);
  const told = shown.reduce((a, b) => (middle(b) < middle(a) ? b : a));
  const busy = new Set(packets.flatMap((p) => [p.from, p.to]));
  c.strokeStyle = wire;
  for (const spot of Object.values(at)) { c.beginPath(); c.moveTo(spot[0], spot[1]); c.lineTo(hub[0], hub[1]); c.stroke(); }
  c.font = "12.5px system-ui, sans-serif";
  c.textAlign = "center";
  for (const p of shown.filter((each) => at[each.from] && at[each.to])) {
    const share = shareOf(p), [x0, y0] = at[p.from], [x1, y1] = at[p.to];
    const side = Math.min(34, 4 + Math.sqrt(p.nbytes) / 14), drift = p.to === "Alice" || p.from === "server" ? 14 : -14;
    const x = x0 + (x1 - x0) * share, y = y0 + (y1 - y0) * share + (at.server ? 0 : drift);
    c.fillStyle = p.from === "Bob" || p.from === "server" ? down : up;
    c.globalAlpha = 0.85;
    c.fillRect(x - side / 2, y - side / 2, side, side);
    c.globalAlpha = 1;
    if (p === told) {
      const words = `${p.what}, ${bytes(p.nbytes)}`, half = c.measureText(words).width / 2 + 4, aside = at.server ? side / 2 + half : 0;
      const left = Math.min(Math.max(x + (x < width / 2 ? -aside : aside), half), width - half), line = y + (at.server ? 4 : drift > 0 ? side / 2 + 14 : -side / 2 - 5);
      c.fillStyle = paper;
      c.fillRect(left - half + 2, line - 12, 2 * half - 4, 16);
      c.fillStyle = ink;
      c.fillText(words, left, line);
    }
  }
  for (const [name, [x, y, words]] of Object.entries(at)) {
    const half = words.length > 2 ? 34 : 12;
    c.fillStyle = busy.has(name) ? color("panel") : paper;
    c.strokeStyle = busy.has(name) ? ink : wire;
    c.lineWidth = busy.has(name) ? 2 : 1;
    c.beginPath();
    c.rect(x - half, y - 13, 2 * half, 26);
    c.fill();
    c.stroke();
    c.fillStyle = ink;
    c.fillText(words, x, y + 4);
  }
  c.lineWidth = 1;
};

const drawPlot = (state) => {
  const mission = MISSIONS[+state.mission - 1], goal = mission && mission.goal, skewed = state.skewed && state.how === "averaged";
  const rows = skewed ? [...DIGITS.rows["non-IID"], ...DIGITS.rows.IID.filter(([, family]) => family === "null")] : DIGITS.rows.IID;
  const own = alone[`${state.owners}/${state.skewed}`], reached = path[path.length - 1];
  picture(place, `Accuracy over bytes sent: ${reached ? `${percent(reached.accuracy)} right after ${bytes(reached.nbytes)}` : "nothing trained yet"}. Sending the data brings ${percent(DIGITS.rows.IID.find(([name]) => name === "send the data")[3])} for ${bytes(SEND)}.`, (width) => {
    const { narrow, height, box } = explore.frame(width, 310, 170);
    const x = scale(1e3, 4e8, box.left, box.right, true, narrow ? 4 : 6), y = explore.accuracyScale(0.1, 0.985, box.bottom, box.top);
    const parts = [explore.axes(box, explore.bytesAxis(x, "bytes sent so far"), explore.accuracyAxis(y, "test images that are right"))];
    const taken = [], wanted = [], px = (b) => x.at(Math.max(b, 1000)), py = (a) => y.at(Math.min(Math.max(a, 0.1), 0.985));
    if (goal) parts.push(`<path d="M${box.left} ${py(goal.accuracy)}H${px(goal.nbytes)}V${box.top}H${box.left}z" fill="var(--three)" opacity=".14"/>`);
    if (goal) wanted.push({ x: box.left + 6, y: py(goal.accuracy), words: "the mission's goal", off: 2 });
    if (state.how === "averaged" && own) {
      parts.push(`<path class="front" d="M${box.left} ${py(own)}H${box.right}"/>`);
      taken.push([box.left, py(own) - 1, box.right, py(own) + 1]);
      wanted.push({ x: box.right - 150, y: py(own) - 10, words: `each alone: ${percent(own)}`, off: 2, must: !narrow });
    }
    for (const [name, family, nbytes, accuracy] of rows) {
      const null_ = family === "null";
      parts.push(mark(null_ ? "diamond" : "circle", px(nbytes), py(accuracy), null_ ? "four" : "grey", 4));
      taken.push(explore.around(px(nbytes), py(accuracy), 5));
      if (!narrow || null_) wanted.push({ x: px(nbytes), y: py(accuracy), words: name, look: null_ ? "strong" : "" });
    }
    const curve = (points) => explore.path(points.map((p) => [px(p.nbytes), py(p.accuracy)]));
    for (const run of tried.slice(-4)) if (run.path.length) parts.push(`<path class="line thin grey" d="${curve(run.path)}"/>`);
    if (path.length) {
      parts.push(`<path class="line one" d="${curve(path)}"/>`, mark("circle", px(reached.nbytes), py(reached.accuracy), "one", 6));
      taken.push(explore.around(px(reached.nbytes), py(reached.accuracy), 7));
      wanted.unshift({ x: px(reached.nbytes), y: py(reached.accuracy), words: "this training", look: "strong", must: true });
    }
    parts.push(explore.labels(wanted, box, taken));
    return { height, body: parts.join("") };
  });
};

const meters = (state) => {
  const now = last || { up: 0, down: 0, nbytes: 0, round: 0 }, speed = state.rate * 125000, seconds = explore.secondsOn({ ...now, waits: 0 }, speed, speed, 0);
  const cells = [["test images right", path.length ? percent(path[path.length - 1].accuracy) : "–"], ["sent", bytes(now.nbytes)],
    state.how === "averaged" ? ["rounds", now.round || 0] : ["passes over the images", (now.round || 0).toFixed(1)],
    ["times the data", (now.nbytes / SEND).toFixed(now.nbytes < 10 * SEND ? 2 : 0)], ["on this link", explore.seconds(seconds)], ...(now.state && state.threshold ? [["now", { A: "both send", B: "only Alice sends", C: "silent" }[now.state]]] : [])];
  byId("meters").innerHTML = cells.map(([name, value]) => `<span>${name} <b>${value}</b></span>`).join("");
};

const say = (state) => {
  const now = failed ? `The training broke: ${failed}. A learning rate that is too large does this, and so do too few bits. Change one of them and start again.`
    : ended ? `Done: ${percent(path.length ? path[path.length - 1].accuracy : 0)} right, best ${percent(best)}, for ${bytes(last.nbytes)} in ${grouped(last.messages)} messages.`
      : last && !running ? `Paused: ${path.length ? percent(path[path.length - 1].accuracy) : "not tested yet"}, ${bytes(last.nbytes)} sent in ${grouped(last.messages)} messages.` : running ? `Training. ${describe(state)}` : describe(state);
  if (now && byId("said").textContent !== now) byId("said").textContent = now;
};


let current = null;
const buttons = () => {
  byId("go").textContent = running ? "❚❚ pause" : last && !ended ? "▶ go on" : "▶ start";
  root.dataset.running = running;
};
const fresh = (next = chosen) => {
  if (path.length) tried.push(summary());
  chosen = next;
  tried = tried.slice(-12);
  path = []; last = null; latest = nextMessage(current); best = 0; seen = {}; packets = []; running = ended = false; failed = "";
  round += 1;
  orders({ round, setting: chosen, watch: current.watch, pace: current.pace });
};
const inside = () => { drawSent(); drawUpdates(); drawWeights(); drawLevels(current); drawGuess(current); };

const render = (state) => {
  const was = current;
  current = { ...state };
  for (const part of document.querySelectorAll("[data-for]")) part.hidden = !part.dataset.for.split(" ").includes(state.how);
  const wish = settingOf(state), renewed = JSON.stringify(chosen) !== JSON.stringify(wish);
  if (!orders) { // the first picture comes before the worker
    const early = [];
    orders = (order) => early.push(order);
    setTimeout(() => { orders = makeWorker(hear); early.forEach((order) => orders(order)); }, 0);
  }
  if (renewed) fresh(wish);
  else if (was && (was.watch !== state.watch || was.pace !== state.pace)) orders({ watch: state.watch, pace: state.pace });
  if (state.how === "averaged" && alone[`${state.owners}/${state.skewed}`] === undefined) askAlone(state);
  byId("code").textContent = code(state);
  buttons(); meters(state); say(state); showMission(state); drawPlot(state); drawScene(performance.now()); inside();
};
let waiting = 0;
const askAlone = (state) => { // in a worker of its own, and not while a slider moves
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const { owners, skewed } = state, ask = makeWorker((news) => { alone[`${owners}/${skewed}`] = news.accuracy; drawPlot(current); });
    ask({ alone: { owners, skewed } });
  }, 400);
};

const hear = (news) => {
  if (news.round !== round) return;
  for (const event of news.events) {
    if (event.kind === "message") packets.push(latest = { ...event, begun: performance.now() + 15 * Math.min(packets.length, 20), takes: Math.min(1600, Math.max(350, (1000 * event.nbytes) / (current.rate * 125000))) });
    if (event.kind !== "record") continue;
    last = event;
    if (event.accuracy !== null) { path.push(event); best = Math.max(best, event.accuracy); }
  }
  if (packets.length > 40) packets.splice(0, packets.length - 40);
  if (news.inside) {
    seen = { ...seen, ...news.inside };
    if (news.inside.guesses && isSplit(chosen)) {
      const flat = seen.truth.map((image) => Array.from(image)), mean = explore.mean(flat.flat()); let off = 0, blind = 0;
      flat.forEach((image, k) => image.forEach((v, p) => { off += (v - seen.guesses[k][p]) ** 2; blind += (v - mean) ** 2; }));
      seen.error = off / blind;
    }
  }
  ended = !!news.ended || (ended && !news.running);
  failed = news.failed || "";
  const stopped = running && !news.running;
  running = news.running;
  if (stopped || ended) { buttons(); say(current); }
  stale = true;
  if (!looping) requestAnimationFrame(loop);
};

let looping = false, stale = false;
const loop = (time) => {
  looping = running || packets.length > 0 || stale;
  if (!looping) return;
  frames += 1;
  root.dataset.frames = frames;
  drawScene(time);
  if (stale && (time - drawn > 180 || !running)) {
    stale = false;
    drawn = time;
    meters(current); drawPlot(current); inside(); showMission(current);
  }
  requestAnimationFrame(loop);
};

byId("go").addEventListener("click", () => {
  if (ended) fresh();
  running = !running;
  orders(running ? { go: true } : { pause: true });
  buttons();
  say(current);
  if (!looping) requestAnimationFrame(loop);
});
byId("step").addEventListener("click", () => {
  if (ended) fresh();
  running = true;
  orders({ step: true });
  if (!looping) requestAnimationFrame(loop);
});
byId("again").addEventListener("click", () => { fresh(); render(current); });
byId("save").addEventListener("click", () => {
  const shown = place.querySelector("svg"), svg = shown.cloneNode(true), link = document.createElement("a"), all = (root) => [root, ...root.querySelectorAll("*")];
  const copies = all(svg); // a style sheet cannot be read from disk: each element takes its looks along
  all(shown).forEach((element, i) => ["fill", "stroke", "stroke-width", "font"].forEach((name) => copies[i].style.setProperty(name, getComputedStyle(element)[name])));
  svg.style.background = getComputedStyle(document.body).backgroundColor;
  link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
  link.download = "playground.svg";
  link.click();
});

let task = "";
const bitsWords = (v) => (v === 32 ? "32, exact" : String(v));
set = explore.page({
  defaults: { mission: "1", cut: "4", kept: 1, threshold: 0, speak: "1", owed: true, skewed: false, rate: 10, watch: false, pace: "fast", seed: 0, ...MISSIONS[0].start },
  stops: { bitsUp: BITS, bitsDown: BITS, kept: KEPT, owners: Array.from({ length: 19 }, (_, i) => i + 2), threshold: [0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1], lr: [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5], rate: [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000] },
  words: {
    bitsUp: bitsWords, bitsDown: bitsWords,
    kept: (v) => (v === 1 ? "all" : percent(v, v < 0.01 ? 1 : 0)), threshold: (v) => (v ? String(v) : "never silent"),
    rate: (v) => `${v} Mbit/s`, owners: String, lr: String,
  },
  repair: (state) => ({ seed: Math.max(0, Math.round(state.seed)) }),
  render,
});
byId("mission").addEventListener("input", () => {
  const mission = MISSIONS[+current.mission - 1];
  if (mission && mission.name !== task) { task = mission.name; tried = []; path = []; set({ threshold: 0, kept: 1, watch: false, skewed: false, lr: 0.05, ...mission.start }); }
});
})();
