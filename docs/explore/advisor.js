/* When does splitting pay? Bytes of four methods before any is run, and of the samples themselves, by the formulas of
   fltoolkit.cost. */
"use strict";

(() => {
  const { byId, bytes, grouped, scale, stops } = explore;
  const METHODS = [
    { key: "split", words: "split learning", look: "two", mark: "square" },
    { key: "federated", words: "federated averaging", look: "one", mark: "circle" },
    { key: "largeBatch", words: "large-batch SGD", look: "three", mark: "triangle" },
    { key: "oneSum", words: "one sum of the columns", look: "four", mark: "diamond" },
  ];
  explore.legend(METHODS.map(({ mark, look, words }) => [[mark, look], words]));
  const whole = (list) => [...new Set(list.map((v) => Math.round(v)))];

  const told = (state, clients) => {
    const model = { parameters: state.parameters, parametersClient: Math.round(state.share * state.parameters), cutWidth: state.cut };
    const setting = { samples: state.samples, clients, columns: state.columns, epochs: state.epochs, rounds: state.rounds, batchSize: 64 };
    return { ...explore.totals(model, setting), waits: explore.waits(setting) };
  };

  const render = (state) => {
    const advice = told(state, state.clients), rate = (state.rate * 1e6) / 8;
    const rows = METHODS.map((m) => ({
      ...m, nbytes: advice[m.key], waits: advice.waits[m.key],
      seconds: explore.secondsOn({ nbytes: advice[m.key], up: advice[m.key], down: 0, waits: advice.waits[m.key] }, rate, rate, state.latency / 1000),
    }));
    const fewest = rows.reduce((a, b) => (b.nbytes < a.nbytes ? b : a)), fastest = rows.reduce((a, b) => (b.seconds < a.seconds ? b : a));
    const data = state.samples * state.sample, times = (nbytes) => grouped(+(nbytes / data).toPrecision(3), nbytes < 9.995 * data ? 2 : 0);
    const opponent = fewest.nbytes > data
      ? `Sending the compressed rows once takes ${bytes(data)}: the cheapest method here sends ${times(fewest.nbytes)} times that, and the rows stay at home.`
      : `Sending the compressed rows once takes ${bytes(data)}: the cheapest method here sends ${times(fewest.nbytes)} of that.`;
    const crossover = advice.crossover === null ? "Split sends fewer bytes than federated for no number of owners."
      : `Split sends fewer bytes than federated from ${grouped(advice.crossover)} owners on.`;
    byId("said").textContent =
      `Fewest bytes: ${fewest.words}, ${bytes(fewest.nbytes)}. On this link ` +
      `${fastest === fewest ? "it is also done first" : `${fastest.words} is done first`}, after ${explore.seconds(fastest.seconds)}. ${crossover} ${opponent}`;
    byId("numbers").innerHTML = explore.table([
      ["method", "bytes per owner", "bytes in total", "waits", "seconds on the link", "times the data"],
      ...rows.map((r) => [r.words, bytes(r.nbytes / state.clients), bytes(r.nbytes), grouped(r.waits), explore.seconds(r.seconds), times(r.nbytes)]),
    ], rows.indexOf(fewest));
    byId("code").textContent =
      "from fltoolkit.cost import ModelCost, crossover_clients, federated_nbytes, split_nbytes\n\n" +
      "# parameters: all, at the client; bytes: all, at the client; cut width; FLOPs are not asked for here\n" +
      `model = ModelCost(${state.parameters}, ${Math.round(state.share * state.parameters)}, ${4 * state.parameters}, ` +
      `${4 * Math.round(state.share * state.parameters)}, ${state.cut}, 0, 0)\n` +
      `split = split_nbytes(model, num_samples=${state.samples}, num_clients=${state.clients}, epochs=${state.epochs})\n` +
      `federated = federated_nbytes(model, num_clients=${state.clients}, rounds=${state.rounds})\n` +
      `crossover = crossover_clients(model, num_samples=${state.samples}, epochs=${state.epochs}, rounds=${state.rounds})\n` +
      `print(split, federated, crossover, ${state.samples} * ${state.sample})  # the last are the data\n`;
    explore.picture(byId("plot"), byId("said").textContent, (width) => {
      const { narrow, height, box } = explore.frame(width, 400, 320, 62);
      const some = whole(stops(1, 10000, 12)).filter((k) => k <= state.samples);
      const lines = METHODS.map((m) => some.map((k) => [k, told(state, k)[m.key] / k]));
      const owned = some.map((k) => [k, data / k]); // what a client would send if it sent its samples
      const all = [...lines, owned].flat().map(([, v]) => v).filter((v) => v > 0);
      const x = scale(1, 10000, box.left, box.right, true);
      const y = scale(0.5 * Math.min(...all), 2 * Math.max(...all), box.bottom, box.top, true, narrow ? 4 : 6);
      const parts = [explore.axes(box, { scale: x, words: grouped, title: "number of owners (log)" },
        explore.bytesAxis(y, "bytes that an owner sends and receives"))];
      const taken = [], wanted = [], here = x.at(state.clients);
      parts.push(`<path class="rule" d="M${here} ${box.top}V${box.bottom}"/>`);
      taken.push([here - 3, box.top, here + 3, box.bottom]);
      if (advice.crossover !== null && advice.crossover <= 10000) {
        const cross = x.at(advice.crossover);
        parts.push(`<path class="front" d="M${cross} ${box.top}V${box.bottom}"/>`);
        taken.push([cross - 2, box.top, cross + 2, box.bottom]);
        wanted.push({ x: cross, y: box.bottom - 30, words: `splitting pays from ${grouped(advice.crossover)}`, must: !narrow, also: [0.2, 0.35, 0.5, 0.65].map((s) => [cross, box.bottom - s * (box.bottom - box.top)]), off: 4 });
      }
      const line = owned.map(([k, v]) => [x.at(k), y.at(v)]);
      parts.push(`<path class="rule" d="${explore.path(line)}"/>`);
      const far = line[Math.floor(0.6 * (line.length - 1))];
      wanted.push({ x: far[0], y: far[1], words: "the rows, sent once", also: line.filter((_, k) => k % 4 === 0), off: 8 });
      METHODS.forEach((m, i) => {
        const at = lines[i].map(([k, v]) => [x.at(k), y.at(v)]);
        parts.push(`<path class="line ${m.look}" d="${explore.path(at)}"/>`);
        at.forEach(([px, py], k) => {
          taken.push(explore.around(px, py, 5));
          if (!k) return;
          const [qx, qy] = at[k - 1];
          for (let t = 0.25; t < 1; t += 0.25) taken.push(explore.around(qx + t * (px - qx), qy + t * (py - qy), 4));
        });
        parts.push(explore.mark(m.mark, here, y.at(advice[m.key] / state.clients), m.look, 6));
      });
      METHODS.forEach((m, i) => {
        const at = lines[i].map(([k, v]) => [x.at(k), y.at(v)]), places = [0.75, 0.5, 0.3, 0.9, 0.1].map((s) => at[Math.floor(s * (at.length - 1))]);
        wanted.push({ x: places[0][0], y: places[0][1], words: m.words, also: places.slice(1), off: 8 });
      });
      wanted.unshift({ x: here, y: box.bottom - 12, words: "you are here", must: true, also: [[here, box.top + 30]], off: 4 });
      return { height, body: parts.join("") + explore.labels(wanted, box, taken) };
    });
  };

  explore.page({
    defaults: { clients: 100, parameters: 1e6, cut: 640, samples: 60000, columns: 784, sample: 136, share: 0.1, epochs: 10, rounds: 10, rate: 100, latency: 20 },
    stops: {
      clients: whole(stops(1, 10000, 30)), parameters: stops(1e4, 1e9, 12), cut: whole([...stops(1, 1e5, 12), 128, 640]).sort((a, b) => a - b),
      samples: [...stops(1e3, 1e7, 12), 60000].sort((a, b) => a - b), columns: whole([...stops(1, 1e4, 12), 784]).sort((a, b) => a - b),
      sample: whole([...stops(1, 1e7, 12), 136]).sort((a, b) => a - b), share: Array.from({ length: 21 }, (_, k) => +(k / 20).toFixed(2)),
      epochs: whole(stops(1, 1000, 12)), rounds: whole(stops(1, 10000, 12)),
      rate: [...explore.RATES, 10000], latency: explore.LATENCIES,
    },
    words: {
      clients: (v) => grouped(v), parameters: (v) => grouped(v), cut: (v) => `${grouped(v)} values per sample`,
      samples: (v) => grouped(v), columns: (v) => grouped(v), sample: bytes, share: (v) => explore.percent(v, 0), epochs: (v) => grouped(v), rounds: (v) => grouped(v),
      rate: (v) => `${v} Mbit/s`, latency: (v) => `${v} ms`,
    },
    repair: (state) => ({ clients: Math.min(state.clients, state.samples) }),
    render,
  });
})();
