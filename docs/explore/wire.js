/* What a codec of the playground does to a message: which values arrive, and how many bytes it has. The codecs are
   Pipeline([TopK(kept)], [Quantize(bits)]) and ErrorFeedback of it. tests/explore/test_formulas.py holds values and
   sizes equal to Python's.

   Not here: the bytes themselves, which nobody reads in this page; entropy coders, random rounding and all other
   codecs; who sends what (trainer.js).

   A tree is an array of {name, shape, data}; `data` is a Float32Array that is not empty, or a Uint8Array, which
   passes unchanged.

   All is one function, whose body is not indented: a page that was opened from a folder may start a worker only from
   text that it has already, and this function's text is what playground.js gives it. */
"use strict";

explore.makeWire = () => {
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const count = (shape) => shape.reduce((a, b) => a * b, 1);
const isFloat = ({ data }) => data instanceof Float32Array;

/* fltoolkit.wire: sizes in bytes of a varint, of the layout of some entries, and of the frame around them. An entry
   that is packed has a `name` in ASCII, a `shape` and its `nbytes`. */

const varint = (number) => (number > 127 ? 1 + varint(Math.floor(number / 128)) : 1);
const layout = (entries) => sum(entries.map(({ name, shape }) => varint(name.length) + name.length + 1 + sum(shape.map(varint))));
const frame = (entries) => {
  const header = layout(entries), mark = 1, checksum = 4;
  return mark + varint(header) + header + sum(entries.map(({ nbytes }) => nbytes)) + checksum;
};
const bytesEntry = (name, nbytes) => ({ name, shape: [nbytes], nbytes });

/* fltoolkit.codecs.quantize: Quantize(bits), nearest rounding, one range for each tensor */

const evenly = (y) => { // half to even, as numpy rounds
  const down = Math.floor(y), rest = y - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
};
const below32 = (x) => {
  const bits = new Uint32Array(Float32Array.of(x).buffer);
  bits[0] -= 1;
  return new Float32Array(bits.buffer)[0];
};

/* Python computes in float32 where that is exact enough: up to 256 levels and steps of usual size. */
const grid = (low, high, bits) => {
  const levels = 2 ** bits - 1, step = (high - low) / levels;
  const real = bits <= 8 && (!step || (step > 1e-30 && step < 1e30)) ? Math.fround : (x) => x;
  let scale = step > 0 ? real(1 / step) : 0;
  const largest = real(real(Math.fround(low + levels * step)) - low);
  while (real(largest * scale) > levels) scale = real === Math.fround ? below32(scale) : scale * (1 - 2 ** -53);
  return { step: real(step), scale, real };
};
const quantized = (values, bits) => {
  let low = Infinity, high = -Infinity;
  for (const x of values) { if (x < low) low = x; if (x > high) high = x; if (x !== x) throw new Error("NaN cannot be quantized"); }
  const { step, scale, real } = grid(low, high, bits);
  return values.map((x) => real(real(evenly(real(real(x - low) * scale)) * step) + low));
};

/* The symbols of a tensor follow a method, the number of levels and the shape. */
const symbols = ({ name, shape }, bits) =>
  bytesEntry(`${name}-#`, 1 + varint(2 ** bits) + varint(shape.length) + sum(shape.map(varint)) + Math.ceil((count(shape) * bits) / 8));
const range = ({ name }) => ({ name: `${name}-r`, shape: [1, 2], nbytes: 8 });

/* fltoolkit.codecs.sparse: TopK(kept), all tensors of a tree together */

const numKept = (fraction, n) => Math.max(1, evenly(fraction * n));

/* The k places of largest magnitude; of equal ones the first. */
const largest = (values, k) => {
  const n = values.length, sizes = new Float32Array(n);
  for (let i = 0; i < n; i++) { sizes[i] = Math.abs(values[i]); if (!(sizes[i] < Infinity)) throw new Error("NaN and infinity cannot be ordered"); }
  const threshold = Float32Array.from(sizes).sort()[n - k], places = new Uint32Array(k);
  let more = 0;
  for (let i = 0; i < n; i++) if (sizes[i] > threshold) more++;
  let equal = k - more, at = 0;
  for (let i = 0; i < n && at < k; i++) if (sizes[i] > threshold || (sizes[i] === threshold && equal-- > 0)) places[at++] = i;
  return places;
};

/* Places: gaps as Rice codes, or one bit for each place where that is shorter. */
const placesNbytes = (places, size) => {
  const k = places.length, gaps = places.map((place, i) => place - (i ? places[i - 1] : -1) - 1);
  let shift = Math.floor(Math.log2(Math.floor(size / k)));
  const cost = (by) => gaps.reduce((total, gap) => total + (gap >>> by), 0) + k * (1 + by);
  let bits = cost(shift);
  for (; shift && cost(shift - 1) <= bits; shift--) bits = cost(shift - 1);
  const head = 1 + varint(size) + varint(k), bitmap = Math.ceil(size / 8);
  if (bits / 8 + 2 >= bitmap) return head + bitmap;
  const low = sum([16, 8, 4, 2, 1].filter((width) => shift & width).map((width) => Math.ceil((k * width) / 8)));
  return head + 1 + low + Math.ceil((bits - k * shift) / 8);
};

/* A codec: `kept` 1 and `bits` 32 leave a stage out. send(tree) gives {nbytes, tree}: what its message weighs and what
   the receiver decodes of it. */
const codec = ({ bits = 32, kept = 1 } = {}) => ({ send: (tree) => {
  const floats = tree.filter(isFloat), beside = [];
  let sent = tree.map((entry) => ({ ...entry, nbytes: entry.data.byteLength })), arrived = tree;
  if (kept < 1) {
    const values = Float32Array.from(floats.flatMap(({ data }) => Array.from(data)));
    const places = largest(values, numKept(kept, values.length)), data = Float32Array.from(places, (place) => values[place]);
    sent = [{ name: "*", shape: [places.length], data, nbytes: data.byteLength }, ...sent.filter((entry) => !isFloat(entry))];
    beside.push(bytesEntry("*-@-#", placesNbytes(places, values.length)), bytesEntry("*-:", layout(floats)));
    const dense = new Float32Array(values.length), few = bits < 32 ? quantized(data, bits) : data;
    places.forEach((place, i) => { dense[place] = few[i]; });
    let at = 0;
    arrived = tree.map((entry) => (isFloat(entry) ? { ...entry, data: dense.slice(at, (at += entry.data.length)) } : entry));
  } else if (bits < 32) arrived = tree.map((entry) => (isFloat(entry) ? { ...entry, data: quantized(entry.data, bits) } : entry));
  if (bits < 32) sent = sent.flatMap((entry) => (isFloat(entry) ? [symbols(entry, bits), range(entry)] : [entry]));
  return { nbytes: frame([...sent, ...beside]), tree: arrived };
} });

/* ErrorFeedback(codec): what a message leaves out is owed, and goes along with the next one. */
const withFeedback = (inner) => {
  let owed = null;
  const send = (tree) => {
    const wanted = tree.map((entry, i) => ({ ...entry, data: owed ? entry.data.map((x, j) => x + owed[i][j]) : entry.data }));
    const sent = inner.send(wanted);
    owed = wanted.map(({ data }, i) => data.map((x, j) => x - sent.tree[i].data[j]));
    return sent;
  };
  return { send, owed: () => owed };
};

return { codec, withFeedback };
};
explore.wire = explore.makeWire();
