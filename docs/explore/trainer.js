/* Training in the page: the network of the course on the digits, in one piece, split or averaged. A message
   weighs what it would in Python (wire.js), and the receiver computes with what arrives of it.

   Twins: models.splitnn_mlp, train_split, train_async with a LossGate, fedavg. A training is an iterator of events, with
   no more work between two than one batch. Random numbers are not numpy's, so a training is one of another seed;
   tests/explore/test_formulas.py compares steps from equal weights. */
"use strict";

explore.makeTrainer = (wire) => {
const WIDTHS = [64, 128, 640, 10], NUM_TRAIN = 1427, MEAN = 0.3053, DEVIATION = 0.3761;
const CUT_WIDTHS = { 1: 128, 2: 128, 3: 640, 4: 640, 5: 10 };
const SPLIT = { lr: 0.05, batch: 32, rounds: 15 }, WHOLE = { lr: 0.1, batch: 10, rounds: 25 };
const STATES = ["A", "B", "C"], KNOWN = 150; // images that Bob knows when he guesses the others
const f32 = Math.fround;

/* random numbers: Mulberry32 (Tommy Ettinger, 2017, public domain) */

const random = (...seeds) => {
  let a = seeds.reduce((sum, seed) => Math.imul(sum ^ seed, 0x9e3779b1) + 0x85ebca6b, 0x6a09e667);
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
};
const shuffled = (items, draw) => {
  const out = [...items];
  for (let i = out.length - 1; i > 0; i--) {
    const j = Math.floor(draw() * (i + 1));
    [out[i], out[j]] = [out[j], out[i]];
  }
  return out;
};
const upTo = (n) => Array.from({ length: n }, (_, i) => i);

/* the digits: a character for each pixel, from 0 to g for 16, and one for each label */

const readDigits = ({ pixels, labels }) => {
  const image = Uint8Array.from(pixels, (pixel) => parseInt(pixel, 17));
  return { pixels: image, x: Float32Array.from(image, (v) => f32(f32(f32(v / 16) - f32(MEAN)) / f32(DEVIATION))),
    y: Uint8Array.from(labels, Number), numTrain: NUM_TRAIN };
};

/* the network: rows of weights lie by input, so that inputs that are zero cost nothing */

const makeNetwork = (seed) => WIDTHS.slice(1).map((out, k) => {
  const wide = WIDTHS[k], draw = random(seed, 17 + k), limit = 1 / Math.sqrt(wide);
  const uniform = () => (2 * draw() - 1) * limit;
  return { in: wide, out, w: Float32Array.from({ length: wide * out }, uniform), b: Float32Array.from({ length: out }, uniform) };
});

/* The state_dict of Python: names, order and shapes. */
const treeOf = (network) => network.flatMap((layer, k) => {
  const data = new Float32Array(layer.w.length);
  for (let i = 0; i < layer.in; i++) for (let j = 0; j < layer.out; j++) data[j * layer.in + i] = layer.w[i * layer.out + j];
  return [{ name: `${2 * k}.weight`, shape: [layer.out, layer.in], data },
    { name: `${2 * k}.bias`, shape: [layer.out], data: layer.b.slice() }];
});
const networkOf = (tree) => WIDTHS.slice(1).map((out, k) => {
  const wide = WIDTHS[k], w = new Float32Array(wide * out), data = tree[2 * k].data;
  for (let i = 0; i < wide; i++) for (let j = 0; j < out; j++) w[i * out + j] = data[j * wide + i];
  return { in: wide, out, w, b: tree[2 * k + 1].data.slice() };
});

/* The items of the network before and behind a cut: linear, relu, linear, relu, linear, softmax. */
const itemsOf = (network) => network.flatMap((layer, k) => (k < 2 ? [layer, "relu"] : [layer]));

/* to[at + j] += factors[0] * from[places[0] + j] + factors[1] * ..., in float32 and four rows at a time: memory is
   slower than arithmetic. */
const factors = new Float32Array(2048), places = new Int32Array(2048);
const addRows = (to, at, from, n, wide) => {
  let k = 0;
  for (; k + 4 <= n; k += 4) {
    const a = factors[k], b = factors[k + 1], c = factors[k + 2], d = factors[k + 3];
    const pa = places[k], pb = places[k + 1], pc = places[k + 2], pd = places[k + 3];
    for (let j = 0; j < wide; j++) {
      to[at + j] = f32(to[at + j] + f32(f32(f32(a * from[pa + j]) + f32(b * from[pb + j])) + f32(f32(c * from[pc + j]) + f32(d * from[pd + j]))));
    }
  }
  for (; k < n; k++) {
    const a = factors[k], pa = places[k];
    for (let j = 0; j < wide; j++) to[at + j] = f32(to[at + j] + f32(a * from[pa + j]));
  }
};
const dot = (a, at, b, from, n) => {
  let p = 0, q = 0, r = 0, s = 0, j = 0;
  for (; j + 4 <= n; j += 4) {
    p += a[at + j] * b[from + j];
    q += a[at + j + 1] * b[from + j + 1];
    r += a[at + j + 2] * b[from + j + 2];
    s += a[at + j + 3] * b[from + j + 3];
  }
  for (; j < n; j++) p += a[at + j] * b[from + j];
  return p + q + r + s;
};

const forward = (items, x, batch) => {
  const inputs = [];
  for (const item of items) {
    inputs.push(x);
    if (item === "relu") { x = x.map((v) => (v > 0 ? v : 0)); continue; }
    const { in: wide, out, w, b } = item, y = new Float32Array(batch * out);
    for (let s = 0; s < batch; s++) {
      let n = 0;
      y.set(b, s * out);
      for (let i = 0; i < wide; i++) if (x[s * wide + i] !== 0) { factors[n] = x[s * wide + i]; places[n++] = i * out; }
      addRows(y, s * out, w, n, out);
    }
    x = y;
  }
  return { out: x, inputs };
};

/* Learn from `g`, the gradient of the output; returns that of the input where it is wanted. */
const backward = (items, inputs, g, batch, lr, wanted) => {
  for (let k = items.length - 1; k >= 0; k--) {
    const item = items[k], x = inputs[k];
    if (item === "relu") { g = g.map((v, i) => (x[i] > 0 ? v : 0)); continue; }
    const { in: wide, out, w, b } = item, back = k || wanted ? new Float32Array(batch * wide) : null;
    const masked = items[k - 1] === "relu"; // below a relu only what passed it matters
    if (back) for (let i = 0; i < batch * wide; i++) if (!masked || x[i] > 0) back[i] = dot(w, (i % wide) * out, g, Math.floor(i / wide) * out, out);
    for (let s = 0; s < batch; s++) for (let j = 0; j < out; j++) b[j] -= lr * g[s * out + j];
    for (let i = 0; i < wide; i++) {
      let n = 0;
      for (let s = 0; s < batch; s++) if (x[s * wide + i] !== 0) { factors[n] = -lr * x[s * wide + i]; places[n++] = s * out; }
      addRows(w, i * out, g, n, out);
    }
    g = back;
  }
  return g;
};

/* A training whose numbers overflow is over: what comes after can be neither learned from nor drawn. */
const finite = (values) => {
  if (!values.every(Number.isFinite)) throw new Error("its numbers became too large for a computer, so nothing more can be learned");
};

/* Log-softmax and the mean negative log-likelihood; the gradient is that of the logits. */
const lossOf = (logits, y) => {
  const n = y.length, g = new Float32Array(logits.length);
  let loss = 0;
  for (let s = 0; s < n; s++) {
    const row = logits.subarray(10 * s, 10 * s + 10), top = Math.max(...row);
    let sum = 0;
    for (const v of row) sum += Math.exp(v - top);
    loss -= (row[y[s]] - top - Math.log(sum)) / n;
    for (let j = 0; j < 10; j++) g[10 * s + j] = (Math.exp(row[j] - top) / sum - (j === y[s])) / n;
  }
  finite([loss]);
  return { loss, g };
};

const batchOf = (data, rows) => {
  const x = new Float32Array(64 * rows.length);
  rows.forEach((row, i) => x.set(data.x.subarray(64 * row, 64 * row + 64), 64 * i));
  return { x, y: Uint8Array.from(rows, (row) => data.y[row]) };
};
const batches = (rows, size, draw) => {
  const order = shuffled(rows, draw), out = [];
  for (let i = 0; i < order.length; i += size) out.push(order.slice(i, i + size));
  return out;
};
const learn = (network, data, rows, lr) => {
  const { x, y } = batchOf(data, rows), items = itemsOf(network), made = forward(items, x, rows.length);
  const { loss, g } = lossOf(made.out, y);
  backward(items, made.inputs, g, rows.length, lr, false);
  return loss;
};

/* The share of the 370 test samples that are right. */
function* accuracyOf(network, data) {
  let right = 0;
  const total = data.y.length - data.numTrain;
  for (let first = data.numTrain; first < data.y.length; first += 60) {
    const rows = upTo(Math.min(60, data.y.length - first)).map((i) => first + i), { x, y } = batchOf(data, rows);
    const { out } = forward(itemsOf(network), x, rows.length);
    rows.forEach((_, s) => {
      const row = out.subarray(10 * s, 10 * s + 10);
      right += row.indexOf(Math.max(...row)) === y[s];
    });
    yield { kind: "work" };
  }
  return right / total;
}

/* what a training has sent */

const begun = (setting, data) => ({
  network: setting.network ? networkOf(setting.network) : makeNetwork(setting.seed || 0), data, setting, up: 0, down: 0, messages: 0, step: 0, inside: {},
});

/* One message crosses: bytes are counted, the receiver gets what arrives. */
const cross = (run, from, to, what, codec, tree) => {
  for (const { data } of tree) finite(data);
  const { nbytes, tree: arrived } = codec.send(tree);
  for (const { data } of arrived) finite(data);
  run[to === run.hub ? "up" : "down"] += nbytes;
  run.messages += 1;
  return { event: { kind: "message", from, to, what, nbytes }, arrived };
};
const matrix = (name, data, batch) => [{ name, shape: [batch, data.length / batch], data }];
const record = (run, loss, accuracy, more = {}) => {
  finite([loss]);
  return { kind: "record", step: run.step, up: run.up, down: run.down, nbytes: run.up + run.down, messages: run.messages, loss, accuracy, ...more };
};

/* A step is over: three times in a pass of `steps` the network is tested. */
function* stepped(run, loss, round, step, steps, more = {}) {
  run.step += 1;
  yield { kind: "work" };
  const due = Math.floor((3 * step) / steps) > Math.floor((3 * (step - 1)) / steps);
  yield record(run, loss, due ? yield* accuracyOf(run.network, run.data) : null, { round: round + step / steps, ...more });
}

/* in one piece: the data were sent once, and one owner trains */

function* whole(run) {
  const { data, setting, network } = run, { lr, batch, rounds } = { ...WHOLE, ...setting.effort };
  run.up = setting.dataBytes || 0; // the one message, as Python made it: its coder is not here
  if (run.up) yield { kind: "message", from: "Alice", to: "Bob", what: "samples", nbytes: run.up };
  for (let round = 0; round < rounds; round++) {
    const pass = batches(upTo(data.numTrain), batch, random(setting.seed || 0, 1000 + round));
    for (const [i, rows] of pass.entries()) {
      yield* stepped(run, learn(network, data, rows, lr), round, i + 1, pass.length);
    }
  }
}

/* split: activations up, gradients down, and states by a threshold */

/* LossGate(threshold): A when the mean loss has moved by the threshold, else one step towards silence. */
const lossGate = (threshold) => {
  let reference = 0, state = "A";
  return { state: () => state, check: (loss) => {
    if (Math.abs(reference - loss) >= threshold) { reference = loss; state = "A"; } else state = state === "A" ? "B" : "C";
  } };
};

function* split(run) {
  const { data, setting, network } = run, { lr, batch, rounds } = { ...SPLIT, ...setting.effort };
  const items = itemsOf(network), bottom = items.slice(0, setting.cut), top = items.slice(setting.cut);
  const upwards = wire.codec({ bits: setting.bitsUp, kept: setting.kept }), downwards = wire.codec({ bits: setting.bitsDown });
  const gate = setting.threshold ? lossGate(setting.threshold) : null;
  const wide = CUT_WIDTHS[setting.cut], cache = gate ? new Float32Array(data.numTrain * wide) : null;
  run.hub = "Bob";
  for (let round = 0; round < rounds; round++) {
    const pass = setting.orders ? setting.orders[round] : batches(upTo(data.numTrain), batch, random(setting.seed || 0, 1000 + round));
    const state = gate ? gate.state() : "A";
    let sum = 0;
    if (gate) {
      const code = [{ name: "state", shape: [], data: Uint8Array.of(STATES.indexOf(state)) }];
      yield cross(run, "Bob", "Alice", "control", wire.codec(), code).event;
    }
    for (const [i, rows] of pass.entries()) {
      const n = rows.length, { x, y } = batchOf(data, rows), speaks = state !== "C";
      let h, made;
      if (speaks) {
        made = forward(bottom, x, n);
        const sent = cross(run, "Alice", "Bob", "activations", upwards, matrix("h", made.out, n));
        h = sent.arrived[0].data;
        Object.assign(run.inside, { rows, before: made.out, after: h, wide });
        if (cache) rows.forEach((row, s) => cache.set(h.subarray(s * wide, (s + 1) * wide), row * wide));
        yield sent.event;
      } else { // each sample was sent in the first pass
        h = new Float32Array(n * wide);
        rows.forEach((row, s) => h.set(cache.subarray(row * wide, (row + 1) * wide), s * wide));
      }
      const mine = forward(top, h, n), { loss, g } = lossOf(mine.out, y), wanted = state === "A";
      const back = top.length ? backward(top, mine.inputs, g, n, lr, wanted) : g;
      if (wanted) {
        const answer = cross(run, "Bob", "Alice", "gradients", downwards, matrix("g", back, n));
        yield answer.event;
        backward(bottom, made.inputs, answer.arrived[0].data, n, lr, false);
      }
      sum += loss;
      yield* stepped(run, loss, round, i + 1, pass.length, { state });
    }
    if (gate) gate.check(sum / pass.length);
  }
}

/* averaged: the model down, each owner's update up */

/* Who has which samples: alike, or sorted by digit and two shards each. */
const dealt = (data, owners, skewed, seed) => {
  const draw = random(seed, 7), order = shuffled(upTo(data.numTrain), draw), parts = skewed ? 2 * owners : owners;
  if (skewed) order.sort((a, b) => data.y[a] - data.y[b]);
  const shares = upTo(parts).map((k) => order.slice(Math.floor((k * order.length) / parts), Math.floor(((k + 1) * order.length) / parts)));
  if (!skewed) return shares;
  const hands = shuffled(upTo(parts), draw);
  return upTo(owners).map((k) => [...shares[hands[2 * k]], ...shares[hands[2 * k + 1]]]);
};

function* averaged(run) {
  const { data, setting } = run, { lr, batch, rounds } = { ...WHOLE, ...setting.effort };
  const shares = dealt(data, setting.owners, setting.skewed, setting.seed || 0);
  const downwards = wire.codec({ bits: setting.bitsDown });
  const links = shares.map(() => {
    const plain = wire.codec({ bits: setting.bitsUp, kept: setting.kept });
    return setting.owed ? wire.withFeedback(plain) : plain;
  });
  const speakers = Math.max(1, Math.round((setting.speak || 1) * setting.owners));
  run.hub = "server";
  run.inside.shares = shares;
  for (let round = 0; round < rounds; round++) {
    const drawn = shuffled(upTo(setting.owners), random(setting.seed || 0, 500 + round)).slice(0, speakers).sort((a, b) => a - b);
    const total = drawn.reduce((sum, k) => sum + shares[k].length, 0), before = treeOf(run.network);
    const mean = before.map(({ data: values }) => new Float64Array(values.length));
    let losses = 0;
    for (const k of drawn) {
      const owner = `owner ${k + 1}`, sent = cross(run, "server", owner, "model", downwards, before);
      yield sent.event;
      const mine = networkOf(sent.arrived);
      const pass = batches(shares[k], batch, random(setting.seed || 0, 3000 + round, k));
      let loss = 0;
      for (const rows of pass) {
        loss += learn(mine, data, rows, lr) / pass.length;
        yield { kind: "work" };
      }
      const delta = treeOf(mine).map((entry, i) => ({ ...entry, data: entry.data.map((v, j) => v - sent.arrived[i].data[j]) }));
      const update = cross(run, owner, "server", "update", links[k], delta);
      const owed = setting.owed ? links[k].owed() : null;
      Object.assign(run.inside, { owner: k, update: delta, updateAfter: update.arrived, owed });
      update.arrived.forEach(({ data: values }, i) => {
        const weight = shares[k].length / total;
        for (let j = 0; j < values.length; j++) mean[i][j] += weight * values[j];
      });
      losses += (loss * shares[k].length) / total;
      yield update.event;
    }
    run.network = networkOf(before.map((entry, i) => ({ ...entry, data: entry.data.map((v, j) => v + Math.fround(mean[i][j])) })));
    run.step += 1;
    const accuracy = yield* accuracyOf(run.network, data);
    yield record(run, losses, accuracy, { round: round + 1 });
  }
}

/* `events` trains when it is read; `run` can be looked at. */
const start = (setting, data) => {
  const run = begun(setting, data);
  return { run, events: { one: whole, split, averaged }[setting.how](run) };
};

/* what Bob makes of what he got */

/* Ridge regression: he knows some images and what was sent of them, and guesses others. With H the known
   messages and X the known pixels, a guess is h H' (H H' + r)^-1 X. */
const guesses = (run, wanted) => {
  const { setting, data, network } = run, wide = CUT_WIDTHS[setting.cut];
  const rows = [...upTo(KNOWN), ...wanted], bottom = itemsOf(network).slice(0, setting.cut), h = [];
  const codec = wire.codec({ bits: setting.bitsUp, kept: setting.kept });
  for (let i = 0; i < rows.length; i += 32) {
    const some = rows.slice(i, i + 32), { out } = forward(bottom, batchOf(data, some).x, some.length);
    const [{ data: got }] = codec.send(matrix("h", out, some.length)).tree;
    some.forEach((_, s) => h.push(got.subarray(s * wide, (s + 1) * wide)));
  }
  const near = (a, b) => 1 + dot(a, 0, b, 0, wide); // 1: a constant
  const known = h.slice(0, KNOWN), system = known.map((a) => Float64Array.from(known, (b) => near(a, b)));
  const ridge = 0.01 * system.reduce((sum, row, i) => sum + row[i], 0) / KNOWN;
  const right = upTo(KNOWN).map((i) => Float64Array.from(data.pixels.subarray(64 * i, 64 * i + 64)));
  system.forEach((row, i) => { row[i] += ridge; });
  for (let k = 0; k < KNOWN; k++) for (let i = 0; i < KNOWN; i++) { // Gauss and Jordan; a positive matrix needs no pivots
    if (i === k) continue;
    const f = system[i][k] / system[k][k];
    for (let j = k; j < KNOWN; j++) system[i][j] -= f * system[k][j];
    for (let p = 0; p < 64; p++) right[i][p] -= f * right[k][p];
  }
  right.forEach((row, k) => row.forEach((v, p) => { row[p] = v / system[k][k]; }));
  return h.slice(KNOWN).map((one) => {
    const image = new Float32Array(64);
    known.forEach((a, i) => { const c = near(one, a); for (let p = 0; p < 64; p++) image[p] += c * right[i][p]; });
    return image;
  });
};

/* From an update: a neuron's change of weights over its change of bias is a mean of the inputs that moved it. */
const mixtures = (update, count) => {
  const [weights, biases] = update, order = upTo(biases.data.length).sort((a, b) => Math.abs(biases.data[b]) - Math.abs(biases.data[a]));
  return order.slice(0, count).map((unit) => Float32Array.from({ length: 64 }, (_, p) => {
    const x = biases.data[unit] ? weights.data[64 * unit + p] / biases.data[unit] : 0;
    return 16 * (x * DEVIATION + MEAN);
  }));
};

/* What owners reach alone: the mean of the first three, after eight passes over their own images. */
const alone = (data, { owners, skewed }) => {
  const shares = dealt(data, owners, skewed, 0).slice(0, 3);
  return shares.reduce((sum, share, k) => {
    const network = makeNetwork(0), { lr, batch } = WHOLE;
    for (let pass = 0; pass < 8; pass++) for (const rows of batches(share, batch, random(0, 9000 + pass, k))) learn(network, data, rows, lr);
    const test = accuracyOf(network, data);
    let next = test.next();
    while (!next.done) next = test.next();
    return sum + next.value / shares.length;
  }, 0);
};

return { CUT_WIDTHS, alone, readDigits, makeNetwork, treeOf, start, guesses, mixtures };
};
