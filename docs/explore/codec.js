/* A codec on a tensor: what Python measured of each stop of the sliders (described in tools/export_explore.py). */
"use strict";

(() => {
  const { byId, bytes, percent, grouped, picture } = explore;
  const { bits: BITS, fractions: FRACTIONS, tensors, leaks } = explore.data.codec;
  const number = (value) => String(+value.toPrecision(3));
  const error = (value) => (value >= 0.001 || !value ? number(value) : value.toExponential(1));

  /* What a stored attack on this codec found; other tensors were not attacked with these codecs. */
  const leak = (state) => {
    const found = state.tensor === "activation" && leaks[`${state.kept}/${state.bits}`];
    if (!found) return "not run";
    const [share, low, high, count] = found;
    return `${percent(share)} [${percent(low)}, ${percent(high)}], ${count} seeds`;
  };

  const code = (state) => {
    const stages = [];
    if (state.kept < 1) stages.push(`TopK(${state.kept})`);
    if (state.bits < 32) stages.push(`Quantize(${state.bits})`);
    if (state.entropy) stages.push("ContextEntropy()");
    return "from fltoolkit import Pipeline\nfrom fltoolkit.codecs import Quantize, TopK\nfrom fltoolkit_research.codecs import ContextEntropy\n\n" +
      `for row in Pipeline(${stages.join(", ")}).explain({"tensor": tensor}):\n    print(row)\n`;
  };

  const render = (state) => {
    const { shape, low, high, before, stops } = tensors[state.tensor], n = shape.reduce((a, b) => a * b);
    const [plain, coded, nominal, bound, lost, worst, kept, after] = stops[`${state.kept}/${state.bits}`];
    const nbytes = state.entropy ? coded : plain, real = (8 * nbytes) / n;
    byId("said").textContent =
      `${grouped(n)} values travel in ${bytes(nbytes)} instead of ${bytes(4 * n)}: ` +
      `${real.toFixed(2)} bits per value really sent, ${nominal.toFixed(2)} nominal. ` +
      `Relative squared error ${error(lost)}` +
      (lost > 1 ? ": worse than sending nothing, which is 1." : ".");
    byId("about").textContent = `${shape.join(" × ")} values, recorded in a training on digits`;
    const size = (words, sent) => [words, `${((8 * sent) / n).toFixed(2)} bits`, `${grouped(sent)} B`]; // takes bytes
    byId("numbers").innerHTML = explore.table([
      ["what it costs", "a value", "in all"],
      size("float32", 4 * n),
      size("nominal: symbols and places at their width", Math.ceil((nominal * n) / 8)),
      size("really sent, headers in", nbytes),
      size("bound if symbols are independent (entropy)", Math.ceil((bound * n) / 8)),
    ]);
    byId("errors").innerHTML = explore.table([
      ["what is lost", ""],
      ["squared error", `${error(lost)} of the squares`],
      ["largest error of a value", error(worst)],
      ["values that are kept", `${grouped(kept)} of ${grouped(n)}`],
    ]);
    byId("leak").textContent = leak(state);
    byId("code").textContent = code(state);
    picture(byId("plot"), `Histogram of the ${state.tensor} before and after. ${byId("said").textContent}`, (width) => {
      const { narrow, height, box } = explore.frame(width, 340, 280, 52);
      const most = Math.max(...before, ...after);
      const x = explore.scale(low, high, box.left, box.right, false, narrow ? 4 : 8);
      const y = explore.scale(0.6, 1.3 * most, box.bottom, box.top, true);
      const parts = [explore.axes(box, { scale: x, words: number, title: "value" },
        { scale: y, words: (v) => grouped(v), title: "number of values (log)" })];
      const unit = (box.right - box.left) / before.length;
      const bars = (counts, share, fill) => counts.forEach((count, i) => {
        if (!count) return;
        const left = box.left + (i + 0.5 - share / 2) * unit, top = y.at(count);
        parts.push(`<rect x="${left.toFixed(1)}" y="${top.toFixed(1)}" width="${(share * unit).toFixed(1)}" height="${(box.bottom - top).toFixed(1)}" fill="${fill}"/>`);
      });
      bars(before, 1, "var(--line)");
      bars(after, 0.5, "var(--one)");
      return { height, body: parts.join("") };
    });
    picture(byId("bars"), "Bits per value: nominal, really sent, bound if independent", (width) => {
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
      kept: (value) => (value === 1 ? "all" : percent(value, value < 0.01 ? 1 : 0)),
    },
    render,
  });
})();
