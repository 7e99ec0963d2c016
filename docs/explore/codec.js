/* A codec on a tensor: what Python measured of recorded tensors at each stop of the sliders. */
"use strict";

(() => {
  const { bits: BITS, fractions: FRACTIONS, table, leaks } = explore.data.codec;
  const number = (value) => String(+value.toPrecision(3));
  const error = (value) => (value >= 0.001 ? String(+value.toPrecision(3)) : value === 0 ? "0" : value.toExponential(1));

  /* What a stored attack on this codec found; other tensors were not attacked with these codecs. */
  const leak = (state) => {
    const found = state.tensor === "activation" && leaks[`${state.kept}/${state.bits}`];
    if (!found) return "not run";
    const [share, low, high, count] = found;
    return `${explore.percent(share)} [${explore.percent(low)}, ${explore.percent(high)}], ${count} seeds`;
  };

  const code = (state) => {
    const stages = [];
    if (state.kept < 1) stages.push(`TopK(${state.kept})`);
    if (state.bits < 32) stages.push(`Quantize(${state.bits})`);
    if (state.entropy) stages.push("Entropy()");
    return "from fltoolkit import Pipeline\nfrom fltoolkit.codecs import Entropy, Quantize, TopK\nfrom fltoolkit.plots import describe_codec\n\n" +
      `describe_codec(tensor, Pipeline(${stages.join(", ")}))\n`;
  };

  const render = (state) => {
    const { shape, stops } = table[state.tensor], n = shape.reduce((a, b) => a * b);
    const { bytes, nominal, bound, kept, errors, range, before, arrived } = stops[`${state.kept}/${state.bits}`];
    const nbytes = bytes[+state.entropy], real = (8 * nbytes) / n;
    explore.byId("said").textContent =
      `${explore.grouped(n)} values travel in ${explore.bytes(nbytes)} instead of ${explore.bytes(4 * n)}: ` +
      `${real.toFixed(2)} bits per value really sent, ${nominal.toFixed(2)} nominal. ` +
      `Relative squared error ${error(errors[0])}` +
      (errors[0] > 1 ? ": worse than sending nothing, which is 1." : ".");
    explore.byId("about").textContent = `${shape.join(" × ")} values, recorded in a training on digits`;
    explore.byId("numbers").innerHTML = explore.table([
      ["", "bits per value", "bytes"],
      ["float32", "32", explore.grouped(4 * n)],
      ["nominal: symbols and places at their width", nominal.toFixed(2), explore.grouped(Math.ceil((nominal * n) / 8))],
      ["really sent, headers in", real.toFixed(2), explore.grouped(nbytes)],
      ["bound if symbols are independent (entropy)", bound.toFixed(2), explore.grouped(Math.ceil((bound * n) / 8))],
      ["relative squared error", error(errors[0]), ""],
      ["largest error", error(errors[1]), ""],
      ["values that are kept", explore.grouped(kept), ""],
    ]);
    explore.byId("leak").textContent = leak(state);
    explore.byId("code").textContent = code(state);
    explore.picture(explore.byId("plot"), `Histogram of the ${state.tensor} before and after. ${explore.byId("said").textContent}`, (width) => {
      const narrow = explore.isNarrow(width), height = narrow ? 280 : 340;
      const box = { left: 52, right: width - 14, top: 28, bottom: height - 44 };
      const most = Math.max(...before, ...arrived.map(([, count]) => count));
      const x = explore.scale(range[0], range[1], box.left, box.right, false, narrow ? 4 : 8);
      const y = explore.scale(0.6, 1.3 * most, box.bottom, box.top, true);
      const parts = [explore.axes(box, { scale: x, words: number, title: "value" },
        { scale: y, words: (v) => explore.grouped(v), title: "number of values (log)" })];
      const unit = (box.right - box.left) / before.length, size = (range[1] - range[0]) / before.length;
      const bars = (list, share, fill) => list.forEach(([count, place]) => {
        if (!count) return;
        const left = x.at(place) - (share * unit) / 2, top = y.at(count);
        parts.push(`<rect x="${left.toFixed(1)}" y="${top.toFixed(1)}" width="${(share * unit).toFixed(1)}" height="${(box.bottom - top).toFixed(1)}" fill="${fill}"/>`);
      });
      bars(before.map((count, i) => [count, range[0] + (i + 0.5) * size]), 1, "var(--line)");
      bars(arrived.map(([, count, place]) => [count, place]), 0.5, "var(--one)");
      return { height, body: parts.join("") };
    });
    explore.picture(explore.byId("bars"), "Bits per value: nominal, really sent, bound if independent", (width) => {
      const list = [["nominal", nominal, "var(--grey)"], ["sent", real, "var(--one)"], ["if independent", bound, "var(--three)"]];
      const left = 106, end = width - 60, scale = Math.max(nominal, real, bound) <= 10 ? 10 : 46;
      const parts = list.map(([words, value, fill], i) => {
        const long = ((end - left) * value) / scale, y = 8 + 26 * i;
        return `<text x="${left - 8}" y="${y + 14}" text-anchor="end">${words}</text>` +
          `<rect x="${left}" y="${y}" width="${long.toFixed(1)}" height="20" fill="${fill}"/><text x="${(left + long + 6).toFixed(1)}" y="${y + 14}">${value.toFixed(2)}</text>`;
      });
      return { height: 90, body: parts.join("") };
    });
  };

  explore.page({
    defaults: { tensor: "activation", bits: 4, kept: 1, entropy: false },
    stops: { bits: BITS, kept: FRACTIONS },
    words: {
      bits: (value) => (value === 32 ? "32 (float32, as they are)" : String(value)),
      kept: (value) => (value === 1 ? "all" : explore.percent(value, value < 0.01 ? 1 : 0)),
    },
    render,
  });
})();
