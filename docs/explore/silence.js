/* Silence: thresholds of experiments/results/async_states.jsonl, and the rules that know no loss. */
"use strict";

(() => {
  const { byId, escape, bytes, percent, grouped, mean, mark, table, picture, scale } = explore;
  const { rows, num_epochs: numEpochs, null: nothing, data_nbytes: dataBytes } = explore.data.silence;
  const place = byId("plot"), strip = byId("strip");
  explore.legend([[["circle", "one"], "loss threshold"], [["square", "two"], "other rules at about these bytes"],
    [["square", "two hollow faint"], "other rules elsewhere"], [explore.NULL, "no method: the data sent once"]]);
  const WITHIN = 0.15; // rules whose bytes are so near count as "the same bytes"

  const summed = (row) => {
    const { value, ...ends } = explore.interval(row.runs.map((run) => run.accuracy), 1);
    return { ...row, cost: mean(row.runs.map((run) => run.nbytes)), accuracy: value, ...ends };
  };
  const all = rows.map(summed), isNull = (p) => !["loss threshold", "vanilla, 8 bits", "vanilla, float32"].includes(p.family);
  const nullRows = nothing.map(summed), sentOnce = nullRows.filter((p) => p.cost > 0); // no method: the data sent, or nothing
  const times = (cost) => grouped(cost / dataBytes, cost >= dataBytes ? 1 : 2);
  const first = (part, name) => all.find((p) => p.part === part && p.name === name);
  const bySeed = ({ runs }) => Object.fromEntries(runs.map(({ seed, accuracy }) => [seed, accuracy]));
  const vanilla = first("8-bit floats", "vanilla, float32");
  /* What the slider visits: in whole epochs from "never silent" on, and last the one with periods of 100 steps. */
  const STOPS = [
    { value: "never silent", point: first("8-bit floats", "vanilla, 8 bits") },
    ...[0.02, 0.05, 0.1, 0.2, 0.4].map((t) => ({ value: String(t), point: first("8-bit floats", `loss threshold ${t}`) })),
    { value: "0.1, asked every 100 steps", point: first("equal bytes, small budget", "loss threshold") },
  ];
  const twin = first("equal bytes, large budget", "loss threshold"); // threshold 0.1 with five seeds

  /* Rules that sent about as much: run for this comparison, or near by chance. */
  const nulls = (stop) => {
    const point = stop.value === "0.1" ? twin : stop.point;
    const near = (p) => Math.abs(p.cost / point.cost - 1) <= WITHIN;
    const compared = point.part.startsWith("equal bytes");
    return all.filter((p) => isNull(p) && (compared ? p.part === point.part : p.part === "8-bit floats" && near(p)))
      .map((p) => {
        const gains = explore.paired(bySeed(p), bySeed(point));
        return { ...p, gains, gain: explore.interval(gains.map((gain) => 100 * gain)) };
      })
      .sort((a, b) => b.accuracy - a.accuracy);
  };

  /* What happened in each epoch, from the bytes of the recorded curve: both ways (A), up only (B), nothing (C). */
  const whole = STOPS[0].point.runs[0].curve[0][0];
  const epochs = (run) =>
    run.curve.map(([sent], i) => (sent - (i ? run.curve[i - 1][0] : 0)) / whole)
      .map((share) => ({ share, state: share > 0.95 ? "A" : Math.abs(share - 0.5) < 0.05 ? "B" : share < 0.01 ? "C" : "" }));

  const render = (state) => {
    const stop = STOPS.find((s) => s.value === state.threshold) || STOPS[3];
    const point = stop.value === "0.1" && twin ? twin : stop.point, others = nulls(stop);
    const steps = ["A", "B", "C"].map((s) => mean(point.runs.map((run) => run.steps[s] / (run.steps.A + run.steps.B + run.steps.C))));
    byId("said").textContent =
      `${stop === STOPS[0] ? "Never silent, 8 bits" : `Threshold ${stop.value}`}: ${percent(point.accuracy, 2)} ` +
      `[${percent(point.low, 2)}, ${percent(point.high, 2)}] for ${bytes(point.cost)}, ` +
      `${grouped(vanilla.cost / point.cost, 1)} times fewer than float32, ` +
      `${times(point.cost)} times the data, ${point.runs.length} seeds. ` +
      `Steps that send both ways ${percent(steps[0], 0)}, up only ${percent(steps[1], 0)}, silent ${percent(steps[2], 0)}.`;
    const better = others.filter((p) => p.gain.low > 0);
    byId("verdict").textContent = !others.length
      ? "No other rule was run at these bytes."
      : `Of ${others.length} rule${others.length > 1 ? "s" : ""} at about these bytes, ${better.length} ` +
        `${better.length === 1 ? "is" : "are"} better by more than noise without looking at the loss` +
        `; the best on average is ${others[0].family}.`;
    byId("nulls").innerHTML = table([
      ["rule", "accuracy", "sent", "minus the threshold [points]", "better on"],
      ...others.map((p) => [escape(p.name), percent(p.accuracy, 2), bytes(p.cost),
        `${explore.signed(p.gain.value, 2)} [${explore.signed(p.gain.low, 2)}, ${explore.signed(p.gain.high, 2)}]`,
        `${p.gains.filter((g) => g > 0).length} of ${p.gains.length} seeds`]),
    ]);
    byId("nothing").innerHTML = table([
      ["no method", "accuracy", "sent", "times the data"],
      ...nullRows.map((p) => [escape(p.name), percent(p.accuracy, 2), bytes(p.cost), times(p.cost)]),
    ]);
    picture(place, byId("said").textContent, (width) => {
      const { narrow, height, box } = explore.frame(width, 400, 320);
      const x = scale(5e5, 6e9, box.left, box.right, true), y = explore.accuracyScale(0.92, 0.986, box.bottom, box.top);
      const parts = [explore.axes(box, explore.bytesAxis(x, "bytes sent in 15 epochs"), explore.accuracyAxis(y))];
      const at = (p) => [x.at(p.cost), y.at(p.accuracy)], taken = [];
      const line = [vanilla, ...STOPS.slice(0, 6).map((s) => s.point)];
      parts.push(`<path class="line one" d="${explore.path(line.map(at))}"/>`);
      line.slice(1).forEach((p, i) => {
        const [a, b] = at(line[i]), [c, d] = at(p);
        for (let k = 0; k <= 10; k++) taken.push(explore.around(a + (k / 10) * (c - a), b + (k / 10) * (d - b), 5));
      });
      const isOther = (p) => others.some((o) => o.part === p.part && o.name === p.name);
      const drawn = all.filter((p) => isNull(p) && (p.part === "8-bit floats" || isOther(p)));
      for (const p of drawn) parts.push(mark("square", ...at(p), isOther(p) ? "two" : "two hollow faint"));
      for (const p of [vanilla, ...STOPS.map((s) => s.point)]) parts.push(mark("circle", ...at(p), "one"));
      for (const p of sentOnce) parts.push(mark(explore.NULL[0], ...at(p), explore.NULL[1]));
      const [px, py] = at(point);
      parts.push(explore.spread(px, y.at(point.low), y.at(point.high)));
      parts.push(mark("circle", px, py, "one", 7), explore.ring(px, py));
      for (const p of [...drawn, ...sentOnce, vanilla, point, ...STOPS.map((s) => s.point)]) taken.push(explore.around(...at(p), 6));
      const wanted = [
        { x: px, y: py, words: stop === STOPS[0] ? "never silent" : `threshold ${stop.value}`, must: true, look: "strong", off: 14 },
        ...(stop.value === "0.1" ? [] : others).map((p) => ({ x: at(p)[0], y: at(p)[1], words: p.family })),
        { x: at(vanilla)[0], y: at(vanilla)[1], words: "float32" },
        ...sentOnce.map((p) => ({ x: at(p)[0], y: at(p)[1], words: p.name })),
        ...(narrow ? [] : drawn.filter((p) => !isOther(p)).map((p) => ({ x: at(p)[0], y: at(p)[1], words: p.name }))),
      ];
      return { height, body: parts.join("") + explore.labels(wanted, box, taken) };
    });
    picture(byId("beside"), `Accuracies of the seeds. ${byId("verdict").textContent}`, (width) => {
      const lines = [{ ...point, family: "loss threshold", mine: true }, ...others], left = 118;
      const box = { left, right: width - 14, top: 24, bottom: 34 + 26 * lines.length };
      const scores = lines.flatMap((p) => [p.low, p.high, ...p.runs.map((run) => run.accuracy)]);
      const x = scale(Math.min(...scores) - 0.001, Math.max(...scores) + 0.001, left, box.right, false, explore.isNarrow(width) ? 4 : 8);
      const empty = { ticks: [] }, parts = [explore.axes(box, { scale: x, words: (v) => `${+(100 * v).toFixed(2)} %`, title: "test accuracy" }, { scale: empty, title: "small: a seed; large: mean, 95 % interval" })];
      parts.push(`<path class="rule" stroke-dasharray="2 4" d="M${x.at(point.accuracy)} ${box.top}V${box.bottom}"/>`);
      lines.forEach((p, i) => {
        const y = box.top + 20 + 26 * i, [kind, look] = p.mine ? ["circle", "one"] : ["square", "two"];
        parts.push(`<text x="${left - 8}" y="${y + 4}" text-anchor="end"${p.mine ? ' class="strong"' : ""}>${escape(p.family)}</text>`);
        parts.push(`<path class="grid" d="M${left} ${y}H${box.right}"/>`);
        parts.push(`<path class="spread" d="M${x.at(p.low)} ${y}H${x.at(p.high)}"/>`);
        for (const run of p.runs) parts.push(mark(kind, x.at(run.accuracy), y, `${look} hollow`, 3.5));
        parts.push(mark(kind, x.at(p.accuracy), y, look, 6.5));
      });
      return { height: box.bottom + 44, body: parts.join("") };
    });
    const cells = epochs(point.runs[0]);
    const words = { A: "both ways", B: "up only", C: "silent", "": "in part" };
    const told = cells.map((c, i) => `epoch ${i + 1} ${words[c.state]}`).join(", ");
    picture(strip, `Seed ${point.runs[0].seed}: ${told}`, (width) => {
      const cell = (width - 48) / numEpochs, height = 76, parts = ['<text class="title" x="0" y="32">sent</text>'];
      cells.forEach(({ share, state: s }, i) => {
        const left = 48 + i * cell, tall = Math.max(44 * Math.min(share, 1), 1);
        parts.push(`<rect x="${left + 1}" y="4" width="${cell - 2}" height="44" fill="var(--grid)"/>`);
        parts.push(`<rect class="one" x="${left + 1}" y="${48 - tall}" width="${cell - 2}" height="${tall}"/>`);
        parts.push(`<text class="tick" x="${left + cell / 2}" y="66" text-anchor="middle">${s || (width < 560 ? "" : `${Math.round(100 * share)} %`)}</text>`);
      });
      return { height, body: parts.join("") };
    });
  };

  explore.page({
    defaults: { threshold: "0.1" },
    stops: { threshold: STOPS.map((s) => s.value) },
    words: { threshold: (value) => value },
    render,
  });
})();
