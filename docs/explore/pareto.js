/* The one plot: every stored run of experiments/results/pareto.jsonl, and those of fedavg.jsonl. */
"use strict";

(() => {
  const { bytes, percent, grouped } = explore;
  const tasks = explore.summed([...explore.data.pareto.tasks, ...explore.data.fedavg.tasks]);
  const METHOD = "3 bits + EF both ways"; // where the page begins
  const taskOf = (state) => tasks.find((t) => t.data === state.data && t.partition === state.partition);

  explore.tradeoff({
    taskOf,
    choosers: ["data", "partition"],
    defaults: { data: "mnist", partition: "IID", method: METHOD },
    costs: {
      nbytes: { title: "bytes sent, both directions", words: bytes, stops: [1e3, 3e9], start: 1e7 },
      up: { title: "bytes sent up", words: bytes, stops: [1e4, 3e9], start: 1e6, suffix: " up" },
      seconds: { title: "seconds on your link", words: explore.seconds, stops: [0.1, 1e6], start: 100 },
      rounds: { title: "rounds, or epochs of split learning", words: (v) => `${grouped(v, v % 1 ? 1 : 0)} round${v === 1 ? "" : "s"}`,
        tick: grouped, stops: [1, 200], start: 10, from: 0.8 },
      flops: { title: "computing at the clients", words: explore.flops, stops: [1e9, 1e14], start: 1e12 },
    },
    metric: {
      sign: 1,
      most: 1,
      name: "accuracy",
      title: "test accuracy (log of the errors)",
      short: (value) => percent(value),
      long: (value) => percent(value, 2),
      cell: (value) => percent(value, 2),
      gap: (value) => explore.signed(100 * value, 2),
      unit: "points",
      tick: explore.brief(percent),
      scale: (least, most, start, end) => {
        const top = Math.max(most, 0.985);
        return explore.accuracyScale(least - 0.2 * (1 - least), top + 0.2 * (1 - top), start, end);
      },
      stops: () => Array.from({ length: 100 }, (_, i) => +(0.5 + i / 200).toFixed(3)),
    },
    families: () => [
      ["federated", "federated", "federated averaging: models go down, updates come up", explore.lookOf.federated],
      ["split", "split", "split learning: activations go up, gradients come down", explore.lookOf.split],
      ["null", "null rows: the data sent, owners alone", "no method: the receiver then has the data, or each owner trains alone", explore.NULL],
    ],
    startWith: (task, points) => (points.find((p) => p.name === METHOD) || points.find((p) => p.method.family !== "null")).name,
    across: "handed on",
    uplink: "up",
    relabel: ({ data }) => {
      for (const option of explore.byId("partition").options) {
        option.textContent = taskOf({ data, partition: option.value }).partition_words;
      }
    },
    about: () => "",
  });
})();
