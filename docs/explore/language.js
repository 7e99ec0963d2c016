/* The transformer's plot: every stored run of experiments/results/language*.jsonl. */
"use strict";

(() => {
  const { byId, escape, bytes, mean } = explore;
  const tasks = explore.summed(explore.data.language.tasks);
  const groups = [...new Set(tasks.map((task) => task.group))];
  byId("task").innerHTML = groups.map((group) => `<optgroup label="${escape(group)}">` +
    tasks.map((t) => (t.group === group ? `<option value="${t.key}">${escape(t.words)}</option>` : "")).join("") + "</optgroup>").join("");
  const ends = (task) => task.methods.flatMap(({ runs }) => runs.map((run) => run.curve[run.curve.length - 1][1]));

  explore.tradeoff({
    taskOf: (state) => tasks.find((task) => task.key === state.task),
    choosers: ["task"],
    defaults: { task: tasks[0].key, method: "" },
    costs: {
      nbytes: { title: "bytes sent in all", words: bytes, stops: [1e4, 1e10] },
      uplink: { title: "bytes up, each message once", words: bytes, stops: [1e4, 1e10], suffix: " up" },
      seconds: { title: "seconds on your link", words: explore.seconds, stops: [0.1, 1e6] },
    },
    metric: {
      sign: -1,
      name: "nats per character",
      title: "nats per character on new text (log): less is better",
      short: (value) => `${value.toFixed(2)} nats`,
      long: (value) => `${value.toFixed(3)} nats`,
      cell: (value) => value.toFixed(3),
      gap: (value) => explore.signed(value, 3),
      unit: "nats",
      tick: (value) => `${value}`,
      scale: (best, worst, start, end) => explore.lossScale(best - 0.02, worst + 0.15 * (worst - best + 0.1), start, end, best - 0.1),
      stops: (task) => {
        const first = Math.floor(100 * Math.min(...ends(task))), last = Math.ceil(100 * Math.max(...ends(task)));
        return Array.from({ length: last - first + 1 }, (_, i) => (first + i) / 100);
      },
    },
    families: (task) => task.families.map(([family, words], i) =>
      [family, family, words, family === "null model" ? explore.NULL : explore.LOOKS[i % explore.LOOKS.length]]),
    startWith: (_, points) => {
      const good = points.filter((p) => p.cost > 0 && p.needs !== null);
      return (good[0] || points[0]).name;
    },
    across: "to each other",
    uplink: "uplink",
    relabel: ({ group }) => {
      for (const p of document.querySelectorAll(".takeaway")) p.hidden = p.dataset.group !== group;
    },
    about: (method) => (method.printed ? `<b>Its paper says:</b> ${escape(method.printed)}.` : ""),
    ledger: ({ runs }) => (runs.every((run) => run.uplink === run.up) ? []
      : [["each message once", "up", bytes(mean(runs.map((run) => run.uplink)))]]),
  });
})();
