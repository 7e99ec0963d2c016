/* The bytes of a message: twins of fltoolkit.wire.pack and unpack, and of the codecs
   Pipeline([TopK(fraction)], [Quantize(bits)]) and ErrorFeedback of it. tests/explore/test_wire.py holds
   them equal.

   Not here: entropy coders, random rounding and all other codecs; who sends what (trainer.js).

   A tree is an array of {name, dtype, shape, data}; `data` is a typed array.

   All is one function, whose body is not indented: a page that was opened from a folder may start a worker only from
   text that it has already, and this function's text is what playground.js gives it. */
"use strict";

explore.makeWire = () => {
const MARK = 0xf1, UNIT = "\x1f", FLOAT32 = 0, UINT8 = 4;
const ARRAYS = [Float32Array, Uint16Array, Uint16Array, Float64Array, Uint8Array, Int8Array, Int16Array, Int32Array, BigInt64Array, Uint8Array];
const SIZES = [4, 2, 2, 8, 1, 1, 2, 4, 8, 1];
const PACKED = 0, RICE = 3, BITMAP = 4;
const utf8 = new TextEncoder(), words = new TextDecoder("utf-8", { fatal: true });

const count = (shape) => shape.reduce((a, b) => a * b, 1);
const bytesOf = (data) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
const joined = (parts) => {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { out.set(part, at); at += part.length; }
  return out;
};

/* XXH3-64 with a seed (Collet 2019): the checksum of a frame is the low half of a chain of these */

const SECRET = Uint8Array.from(("b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee035" +
  "90e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d97873" +
  "64eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
  .match(/../g).map((hex) => parseInt(hex, 16)));
const ALL = (1n << 64n) - 1n;
const PRIMES = [0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn, 0x165667b19e3779f9n, 0x85ebca77c2b2ae63n, 0x27d4eb2f165667c5n];
const view = (bytes, at) => new DataView(bytes.buffer, bytes.byteOffset + at);
const word = (bytes, at) => view(bytes, at).getBigUint64(0, true);
const half = (bytes, at) => BigInt(view(bytes, at).getUint32(0, true));
const turned = (x, by) => ((x << by) | (x >> (64n - by))) & ALL;
const swapped = (x) => view(BigUint64Array.of(x), 0).getBigUint64(0);
const folded = (a, b) => { const product = a * b; return (product & ALL) ^ (product >> 64n); };
const stirred = (h) => { // XXH3_avalanche
  h ^= h >> 37n;
  h = (h * 0x165667919e3779f9n) & ALL;
  return h ^ (h >> 32n);
};
const stirredMore = (h) => { // XXH64_avalanche
  h ^= h >> 33n;
  h = (h * PRIMES[1]) & ALL;
  h ^= h >> 29n;
  h = (h * PRIMES[2]) & ALL;
  return h ^ (h >> 32n);
};

const hashFew = (bytes, seed) => { // up to 16 bytes
  const n = bytes.length, s = (at) => word(SECRET, at);
  if (!n) return stirredMore(seed ^ s(56) ^ s(64));
  if (n < 4) {
    const all = (bytes[0] << 16) + bytes[n >> 1] * 2 ** 24 + bytes[n - 1] + (n << 8);
    return stirredMore(BigInt(all) ^ (((half(SECRET, 0) ^ half(SECRET, 4)) + seed) & ALL));
  }
  if (n <= 8) {
    seed ^= swapped(seed & 0xffffffffn) & (0xffffffffn << 32n);
    let h = (half(bytes, n - 4) + (half(bytes, 0) << 32n)) ^ (((s(8) ^ s(16)) - seed) & ALL);
    h ^= turned(h, 49n) ^ turned(h, 24n);
    h = (h * 0x9fb21c651e98df25n) & ALL;
    h ^= (h >> 35n) + BigInt(n);
    h = (h * 0x9fb21c651e98df25n) & ALL;
    return h ^ (h >> 28n);
  }
  const low = word(bytes, 0) ^ (((s(24) ^ s(32)) + seed) & ALL);
  const high = word(bytes, n - 8) ^ (((s(40) ^ s(48)) - seed) & ALL);
  return stirred((BigInt(n) + swapped(low) + high + folded(low, high)) & ALL);
};

const hashSome = (bytes, seed) => { // 17 to 240 bytes
  const n = bytes.length;
  const mixed = (at, key) => folded(word(bytes, at) ^ ((word(SECRET, key) + seed) & ALL),
    word(bytes, at + 8) ^ ((word(SECRET, key + 8) - seed) & ALL));
  let sum = BigInt(n) * PRIMES[0];
  if (n <= 128) {
    for (let i = Math.floor((n - 1) / 32); i >= 0; i--) sum += mixed(16 * i, 32 * i) + mixed(n - 16 * (i + 1), 32 * i + 16);
    return stirred(sum & ALL);
  }
  for (let i = 0; i < 8; i++) sum += mixed(16 * i, 16 * i);
  sum = stirred(sum & ALL);
  for (let i = 8; i < n >> 4; i++) sum += mixed(16 * i, 16 * (i - 8) + 3);
  return stirred((sum + mixed(n - 16, 119)) & ALL);
};

const PRIME = 0x9e3779b1;
const upper = (x, y) => { // the upper half of x * y, of 32 bits each
  const x0 = x & 0xffff, x1 = x >>> 16, y0 = y & 0xffff, y1 = y >>> 16;
  const middle = (Math.imul(x1, y0) >>> 0) + (Math.imul(x0, y0) >>> 16); // below 2^32
  const other = (Math.imul(x0, y1) >>> 0) + (middle & 0xffff);
  return (Math.imul(x1, y1) + (middle >>> 16) + (other >>> 16)) >>> 0;
};

/* More than 240 bytes: eight sums of 64 bits, each kept as two numbers of 32 bits. BigInt would take a second
   for a model of a megabyte. */
const hashMany = (bytes, seed) => {
  const n = bytes.length, secret = new DataView(new ArrayBuffer(192));
  for (let i = 0; i < 192; i += 16) {
    secret.setBigUint64(i, (word(SECRET, i) + seed) & ALL, true);
    secret.setBigUint64(i + 8, (word(SECRET, i + 8) - seed) & ALL, true);
  }
  const own = new Uint8Array(secret.buffer), key = new Uint32Array(secret.buffer), end = new Uint32Array(own.slice(121, 185).buffer);
  const data = new Uint32Array(bytes.slice(0, n - (n % 4)).buffer), tail = new Uint32Array(bytes.slice(n - 64).buffer);
  const low = new Uint32Array(8), high = new Uint32Array(8);
  [0xc2b2ae3dn, ...PRIMES.slice(0, 4), 0x85ebca77n, PRIMES[4], 0x9e3779b1n].forEach((value, i) => {
    low[i] = Number(value & 0xffffffffn);
    high[i] = Number(value >> 32n);
  });
  const stripe = (from, at, key, where) => {
    for (let i = 0; i < 8; i++) {
      const a = from[at + 2 * i], b = from[at + 2 * i + 1], j = i ^ 1;
      const x = (a ^ key[where + 2 * i]) >>> 0, y = (b ^ key[where + 2 * i + 1]) >>> 0;
      const added = (low[j] + a) >>> 0, carry = added < a ? 1 : 0;
      low[j] = added;
      high[j] = (high[j] + b + carry) >>> 0;
      const product = Math.imul(x, y) >>> 0, sum = (low[i] + product) >>> 0;
      low[i] = sum;
      high[i] = (high[i] + upper(x, y) + (sum < product ? 1 : 0)) >>> 0;
    }
  };
  const blocks = Math.floor((n - 1) / 1024);
  for (let block = 0; block < blocks; block++) {
    for (let i = 0; i < 16; i++) stripe(data, 256 * block + 16 * i, key, 2 * i);
    for (let i = 0; i < 8; i++) { // scramble
      const a = (low[i] ^ (high[i] >>> 15) ^ key[32 + 2 * i]) >>> 0, b = (high[i] ^ key[33 + 2 * i]) >>> 0;
      low[i] = Math.imul(a, PRIME);
      high[i] = (upper(a, PRIME) + Math.imul(b, PRIME)) >>> 0;
    }
  }
  for (let i = 0; i < Math.floor((n - 1 - 1024 * blocks) / 64); i++) stripe(data, 256 * blocks + 16 * i, key, 2 * i);
  stripe(tail, 0, end, 0);
  let sum = (BigInt(n) * PRIMES[0]) & ALL;
  const whole = (i) => (BigInt(high[i]) << 32n) | BigInt(low[i]);
  for (let i = 0; i < 4; i++) sum += folded(whole(2 * i) ^ word(own, 11 + 16 * i), whole(2 * i + 1) ^ word(own, 19 + 16 * i));
  return stirred(sum & ALL);
};

const xxh3 = (bytes, seed) => (bytes.length <= 16 ? hashFew : bytes.length <= 240 ? hashSome : hashMany)(bytes, seed);

/* fltoolkit.wire: the frame */

const varint = (number) => {
  const out = [];
  for (; number > 127; number = Math.floor(number / 128)) out.push((number % 128) | 128);
  return [...out, number];
};

const layout = (entries) => Uint8Array.from(entries.flatMap(({ name, dtype, shape }) => {
  const text = utf8.encode(name);
  return [...varint(text.length), ...text, (shape.length << 4) | dtype, ...shape.flatMap(varint)];
}));

const chained = (parts) => parts.reduce((digest, part) => xxh3(part, digest), 0n);
const checksum = (digest) => Uint8Array.from([0, 8, 16, 24], (by) => Number((digest >> BigInt(by)) & 255n));

/* pack: a tree becomes one frame. */
const pack = (tree) => {
  const header = layout(tree);
  const parts = [Uint8Array.from([MARK, ...varint(header.length), ...header]), ...tree.map(({ data }) => bytesOf(data))];
  return joined([...parts, checksum(chained(parts))]);
};

const reader = (bytes) => {
  let at = 0;
  const byte = (what) => {
    if (at >= bytes.length) throw new Error(`offset ${at}: expected ${what}, but the data end here`);
    return bytes[at++];
  };
  const number = (what) => {
    let sum = 0;
    for (let factor = 1; ; factor *= 128) {
      const next = byte(what);
      sum += (next & 127) * factor;
      if (next < 128) return sum;
      if (factor > 2 ** 42) throw new Error(`offset ${at}: expected ${what} as a varint`);
    }
  };
  const take = (length) => {
    if (length > bytes.length - at) throw new Error(`offset ${at}: expected ${length} bytes more, found ${bytes.length - at}`);
    at += length;
    return bytes.subarray(at - length, at);
  };
  return { byte, number, take, rest: () => bytes.subarray(at), ended: () => at === bytes.length };
};

const readLayout = (bytes) => {
  const read = reader(bytes), entries = [];
  while (!read.ended()) {
    const name = words.decode(read.take(read.number("a name's length"))), kind = read.byte("a dtype");
    const shape = Array.from({ length: kind >> 4 }, () => read.number("a dimension"));
    if (!SIZES[kind & 15]) throw new Error(`expected a dtype code below 10 for "${name}", found ${kind & 15}`);
    entries.push({ name, dtype: kind & 15, shape });
  }
  return entries;
};

/* unpack: one frame becomes a tree. What is damaged is refused. */
const unpack = (message) => {
  const read = reader(message);
  if (read.byte("the frame's mark") !== MARK) throw new Error("offset 0: expected 0xf1, a frame of version 1");
  const tree = readLayout(read.take(read.number("the header's length")));
  const parts = [message.subarray(0, message.length - read.rest().length)];
  for (const entry of tree) {
    const values = read.take(count(entry.shape) * SIZES[entry.dtype]), Kind = ARRAYS[entry.dtype];
    parts.push(values);
    entry.data = new Kind(values.slice().buffer);
  }
  const found = read.take(4), expected = checksum(chained(parts));
  if (!read.ended() || found.some((value, i) => value !== expected[i])) throw new Error("the message was damaged on its way");
  return tree;
};

/* fltoolkit.codecs.coders: BitPack */

const ceil8 = (n) => Math.ceil(n / 8);
const pieces = (width) => { // 7 bits are cut into 4, 2 and 1
  const out = [];
  let shift = 0;
  for (const bits of [32, 16, 8, 4, 2, 1]) if (width & bits) { out.push([shift, bits]); shift += bits; }
  return out;
};
const roundedUp = (n, width) => pieces(width).reduce((sum, [, bits]) => sum + ceil8(n * bits), 0);

const packBits = (values, width) => joined(pieces(width).map(([shift, bits]) => {
  const n = values.length, nbytes = ceil8(n * bits), out = new Uint8Array(nbytes);
  if (bits >= 8) {
    for (let i = 0; i < n; i++) for (let b = 0; b < bits / 8; b++) out[(i * bits) / 8 + b] = (values[i] >>> (shift + 8 * b)) & 255;
  } else {
    const mask = (1 << bits) - 1;
    for (let i = 0; i < n; i++) out[i % nbytes] |= ((values[i] >>> shift) & mask) << (bits * Math.floor(i / nbytes));
  }
  return out;
}));

const unpackBits = (payload, n, width) => {
  const values = new Uint32Array(n);
  let start = 0;
  if (roundedUp(n, width) > payload.length) throw new Error(`expected ${n} times ${width} bits, found ${payload.length} bytes`);
  for (const [shift, bits] of pieces(width)) {
    const nbytes = ceil8(n * bits), mask = (1 << bits) - 1;
    for (let i = 0; i < n; i++) {
      if (bits >= 8) for (let b = 0; b < bits / 8; b++) values[i] |= payload[start + (i * bits) / 8 + b] << (shift + 8 * b);
      else values[i] |= ((payload[start + (i % nbytes)] >> (bits * Math.floor(i / nbytes))) & mask) << shift;
    }
    start += nbytes;
  }
  return values;
};

/* Up to 7 values at the end follow as one number where that saves bytes. */
const isTight = (nbytes, n, width) => ceil8(n * width) <= nbytes && nbytes < roundedUp(n, width);
const packTight = (values, width) => {
  const n = values.length, whole = n - (n % 8);
  if (!isTight(ceil8(n * width), n, width)) return packBits(values, width);
  let number = 0n;
  for (let i = whole; i < n; i++) number |= BigInt(values[i]) << BigInt(width * (i - whole));
  const tail = Uint8Array.from({ length: ceil8((n - whole) * width) }, (_, i) => Number((number >> BigInt(8 * i)) & 255n));
  return joined([packBits(values.subarray(0, whole), width), tail]);
};
const unpackTight = (payload, n, width) => {
  if (!isTight(payload.length, n, width)) return unpackBits(payload, n, width);
  const whole = n - (n % 8), values = new Uint32Array(n);
  values.set(unpackBits(payload, whole, width));
  let number = 0n;
  payload.subarray((whole / 8) * width).forEach((byte, i) => { number |= BigInt(byte) << BigInt(8 * i); });
  for (let i = whole; i < n; i++) values[i] = Number((number >> BigInt(width * (i - whole))) & BigInt(2 ** width - 1));
  return values;
};

const writeSymbols = (values, bits, shape) =>
  joined([Uint8Array.from([PACKED, ...varint(2 ** bits), ...varint(shape.length), ...shape.flatMap(varint)]), packTight(values, bits)]);

/* Places: gaps as Rice codes, or one bit for each place where that is shorter. */
const writePlaces = (places, size) => {
  const k = places.length, gaps = places.map((place, i) => place - (i ? places[i - 1] : -1) - 1);
  let shift = k ? Math.floor(Math.log2(Math.floor(size / k))) : 0;
  const cost = (by) => gaps.reduce((sum, gap) => sum + (gap >>> by), 0) + k * (1 + by);
  let bits = cost(shift);
  for (; shift && cost(shift - 1) <= bits; shift--) bits = cost(shift - 1);
  const head = [...varint(size), ...varint(k)];
  if (bits / 8 + 2 >= ceil8(size)) {
    const mask = new Uint8Array(ceil8(size));
    for (const place of places) mask[place >> 3] |= 1 << (place & 7);
    return joined([Uint8Array.from([BITMAP, ...head]), mask]);
  }
  const ones = new Uint8Array(ceil8(bits - k * shift));
  let end = -1;
  for (const gap of gaps) { end += (gap >>> shift) + 1; ones[end >> 3] |= 1 << (end & 7); }
  return joined([Uint8Array.from([RICE, ...head, shift]), packBits(gaps.map((gap) => gap & (2 ** shift - 1)), shift), ones]);
};

const readPlaces = (bytes) => {
  const read = reader(bytes), method = read.byte("the method"), size = read.number("size"), k = read.number("how many");
  const places = new Uint32Array(k);
  const eachOne = (bits, f) => { for (let i = 0; i < 8 * bits.length; i++) if (bits[i >> 3] & (1 << (i & 7))) f(i); };
  let i = 0;
  if (method === BITMAP) eachOne(read.rest(), (place) => { places[i++] = place; });
  else if (method === RICE) {
    const shift = read.byte("the Rice parameter"), rest = read.take(roundedUp(k, shift)), low = unpackBits(rest, k, shift);
    let before = -1, place = -1;
    eachOne(read.rest(), (end) => {
      place += (end - before - 1) * 2 ** shift + low[i] + 1;
      before = end;
      places[i++] = place;
    });
  } else throw new Error(`expected places, found method ${method}`);
  if (i !== k || (k && places[k - 1] >= size)) throw new Error(`expected ${k} places below ${size}`);
  return { places, size };
};

/* fltoolkit.codecs.quantize: Quantize(bits), nearest rounding, one range for each tensor */

const evenly = (y) => { // half to even, as numpy rounds
  const down = Math.floor(y), rest = y - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
};

/* Python computes in float32 where that is exact enough: up to 256 levels and steps of usual size. */
const grid = (low, high, bits) => {
  const levels = 2 ** bits - 1, step = (high - low) / levels;
  const real = bits <= 8 && (!step || (step > 1e-30 && step < 1e30)) ? Math.fround : (x) => x;
  let scale = step > 0 ? real(1 / step) : 0;
  const largest = real(real(Math.fround(low + levels * step)) - low);
  while (real(largest * scale) > levels) scale = real === Math.fround ? below32(scale) : scale * (1 - 2 ** -53);
  return { levels, step: real(step), scale, real };
};
const below32 = (x) => {
  const bits = new Uint32Array(Float32Array.of(x).buffer);
  bits[0] -= 1;
  return new Float32Array(bits.buffer)[0];
};

const quantized = (values, bits) => {
  let low = Infinity, high = -Infinity;
  for (const x of values) { if (x < low) low = x; if (x > high) high = x; if (x !== x) throw new Error("NaN cannot be quantized"); }
  const { scale, real } = grid(low, high, bits), symbols = new Uint32Array(values.length);
  for (let i = 0; i < values.length; i++) symbols[i] = evenly(real(real(values[i] - low) * scale));
  return { symbols, range: Float32Array.of(low, high) };
};

const restored = (symbols, [low, high], bits) => {
  if (!(low <= high)) throw new Error("expected ranges from low to high");
  const { step, real } = grid(low, high, bits), values = new Float32Array(symbols.length);
  for (let i = 0; i < values.length; i++) values[i] = real(real(symbols[i] * step) + low);
  return values;
};

/* fltoolkit.codecs.sparse: TopK(fraction), all tensors of a tree together */

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

/* fltoolkit.codecs.Pipeline([TopK(kept)], [Quantize(bits)]): `kept` 1 and `bits` 32 leave a stage out.
   Stages work on the entries of float32 that are not empty; everything else passes unchanged. (Python's
   half precision is float32 here, with the entry of its dtype beside it.) */

const isFloat = ({ name, dtype, data }) => dtype === FLOAT32 && data.length > 0 && !name.includes(UNIT);
const bytesEntry = (name, data) => ({ name, dtype: UINT8, shape: [data.length], data });

const sparsified = (parts, kept) => {
  const floats = parts.filter(isFloat);
  if (!floats.length) return parts;
  const values = new Float32Array(floats.reduce((sum, { data }) => sum + data.length, 0));
  floats.reduce((at, { data }) => { values.set(data, at); return at + data.length; }, 0);
  const places = largest(values, numKept(kept, values.length)), data = Float32Array.from(places, (place) => values[place]);
  const instead = [{ name: "*", dtype: FLOAT32, shape: [data.length], data },
    bytesEntry(`*${UNIT}@${UNIT}#`, writePlaces(places, values.length)), bytesEntry(`*${UNIT}:`, layout(floats))];
  return parts.flatMap((entry) => (entry === floats[0] ? instead : isFloat(entry) ? [] : [entry]));
};
const densified = (parts, kept) => {
  const of = (name) => parts.find((entry) => entry.name === name), main = of("*");
  if (!main) return parts;
  const { places, size } = readPlaces(of(`*${UNIT}@${UNIT}#`).data), values = new Float32Array(size);
  if (places.length !== numKept(kept, size) || places.length !== main.data.length) throw new Error("these are not this codec's places");
  places.forEach((place, i) => { values[place] = main.data[i]; });
  let at = 0;
  const dense = readLayout(of(`*${UNIT}:`).data).map((entry) => {
    at += count(entry.shape);
    return { ...entry, data: values.slice(at - count(entry.shape), at) };
  });
  return parts.flatMap((entry) => (entry === main ? dense : entry.name.startsWith(`*${UNIT}`) ? [] : [entry]));
};

const inLevels = (parts, bits) => {
  const ranges = [];
  return [...parts.map((entry) => {
    if (!isFloat(entry)) return entry;
    const { symbols, range } = quantized(entry.data, bits);
    ranges.push({ name: `${entry.name}${UNIT}r`, dtype: FLOAT32, shape: [1, 2], data: range });
    return bytesEntry(`${entry.name}${UNIT}#`, writeSymbols(symbols, bits, entry.shape));
  }), ...ranges];
};
const fromLevels = (parts, bits) => parts.filter(({ name }) => !name.endsWith(`${UNIT}r`)).map((entry) => {
  const name = entry.name.split(UNIT)[0], range = parts.find((other) => other.name === `${name}${UNIT}r`);
  if (entry.name !== `${name}${UNIT}#` || !range) return entry;
  const read = reader(entry.data);
  if (read.byte("the method") !== PACKED || read.number("num_levels") !== 2 ** bits) throw new Error(`entry "${name}": expected symbols of ${bits} bits`);
  const shape = Array.from({ length: read.number("dimensions") }, () => read.number("a dimension"));
  return { name, dtype: FLOAT32, shape, data: restored(unpackTight(read.rest(), count(shape), bits), range.data, bits) };
});

const codec = ({ bits = 32, kept = 1 } = {}) => {
  if (bits === 32 && kept === 1) return { encode: pack, decode: unpack }; // Identity
  const encode = (tree) => {
    const parts = kept < 1 ? sparsified(tree, kept) : tree;
    return pack(bits < 32 ? inLevels(parts, bits) : parts);
  };
  const decode = (message) => {
    const parts = bits < 32 ? fromLevels(unpack(message), bits) : unpack(message);
    return kept < 1 ? densified(parts, kept) : parts;
  };
  return { encode, decode };
};

/* ErrorFeedback(codec): what a message leaves out is owed, and goes along with the next one. */
const withFeedback = (inner) => {
  let owed = null;
  const encode = (tree) => {
    const wanted = tree.map((entry, i) => ({ ...entry, data: owed ? entry.data.map((x, j) => x + owed[i][j]) : entry.data }));
    const message = inner.encode(wanted), sent = inner.decode(message);
    owed = wanted.map(({ data }, i) => data.map((x, j) => x - sent[i].data[j]));
    return message;
  };
  return { encode, decode: inner.decode, owed: () => owed };
};

return { FLOAT32, UINT8, ARRAYS, numKept, xxh3, pack, unpack, codec, withFeedback };
};
explore.wire = explore.makeWire();
