/* The transformer's plot: every stored run of experiments/results/language*.jsonl. */
"use strict";

(() => {
  const { byId, escape, bytes, mean } = explore;
  const { tasks } = explore.data.language;
  const list = byId("task");
  const TAKEAWAYS = { // by group; that of the first is in the page
    "A transformer in two parts": ["few bits of everything cost less than all bits of what has moved, and less than silence.",
      "before you send less often, send fewer bits."],
    "Fine-tuning together": ["all weights in 2 bits do better than thin matrices (LoRA) in float32, and send less.",
      "choose the bits before you choose the weights; who can spare some quality chooses both."],
  };
  const takeaway = byId("takeaway"), first = takeaway.innerHTML;
  const groups = [...new Set(tasks.map((task) => task.group))];
  list.innerHTML = groups.map((group) =>
    `<optgroup label="${escape(group)}">` + tasks.filter((task) => task.group === group)
      .map((task) => `<option value="${task.key}">${escape(task.words)}</option>`).join("") + "</optgroup>").join("");
  const ends = (task) => task.methods.flatMap(({ runs }) => runs.map((run) => run.curve[run.curve.length - 1][1]));

  /* Nats of a method minus those of another, seed by seed. */
  const gaps = (method, base) => method.runs.flatMap((run) => {
    const other = base.runs.find(({ seed }) => seed === run.seed);
    return other ? [run.curve[run.curve.length - 1][1] - other.curve[other.curve.length - 1][1]] : [];
  });
  const signed = (value) => `${value < -0.0005 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
  const beside = (method, base) => {
    const found = base ? gaps(method, base) : [];
    if (!found.length) return "";
    const spread = found.length > 1 ? ` [${signed(Math.min(...found))}, ${signed(Math.max(...found))}]` : "";
    return `<b id="gap">${signed(mean(found))}</b>${spread} nats beside it, seed by seed ` +
      `(${found.length} seed${found.length > 1 ? "s" : ""} in common). `;
  };

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
      tick: (value) => `${value}`,
      scale: (best, worst, start, end) => explore.lossScale(best - 0.02, worst + 0.15 * (worst - best + 0.1), start, end, best - 0.1),
      stops: (task) => {
        const first = Math.floor(100 * Math.min(...ends(task))), last = Math.ceil(100 * Math.max(...ends(task)));
        return Array.from({ length: last - first + 1 }, (_, i) => (first + i) / 100);
      },
    },
    families: (task) => task.families.map(([family, words], i) =>
      [family, family, words, family === "null model" ? explore.NULL : explore.LOOKS[i % explore.LOOKS.length]]),
    startWith: (task, points) => {
      const good = points.filter((p) => p.cost > 0 && p.high <= task.target);
      return (good[0] || points[0]).name;
    },
    across: "to each other",
    uplink: "uplink",
    relabel: ({ group }) => {
      const [see, conclude] = TAKEAWAYS[group] || [];
      takeaway.innerHTML = see ? `<b>What to see:</b> ${see} <b>Conclude:</b> ${conclude}` : first;
    },
    about: (method, base) => beside(method, base) +
      (method.printed ? `<b>Its paper says:</b> ${escape(method.printed)}.` : ""),
    ledger: ({ runs }) => (runs.every((run) => run.uplink === run.up) ? []
      : [["each message once", "up", bytes(mean(runs.map((run) => run.uplink)))]]),
  });
})();
