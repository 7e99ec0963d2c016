/* The first page: a budget slider, and every method's mark where that budget takes it. */
"use strict";

(() => {
  const { byId, bytes, percent, mean } = explore;
  // Inside another page, such as the first one of the documentation, only the figure is shown.
  if (window.parent !== window) {
    document.documentElement.dataset.framed = "";
    for (const link of document.links) link.target = "_parent";
  }
  const task = explore.summed(explore.data.pareto.tasks).find((t) => t.data === "mnist" && t.partition === "IID");
  const place = byId("plot"), play = byId("play");
  const BUDGETS = explore.stops(1e6, 1e9, 40);

  /* Where a method is once `budget` bytes were sent: the mean of its seeds, or null if one has no result yet. */
  const at = (method, budget) => {
    const accuracies = method.runs.map((run) => explore.valueWithin(run, budget, task.num_test));
    if (accuracies.includes(null)) return null;
    const sent = method.runs.map((run) => run.curve.filter(([b]) => b <= budget).pop()[0]);
    const now = [mean(sent), mean(accuracies)];
    const means = method.runs[0].curve.map((_, i) =>
      [0, 1].map((column) => mean(method.runs.map((run) => run.curve[i][column]))));
    const trail = [...means.map(([b, right]) => [b, right / task.num_test]).filter(([b]) => b < now[0]), now];
    return { name: method.name, family: method.family, cost: now[0], accuracy: now[1], trail };
  };

  const render = (state) => {
    const points = task.methods.filter((method) => method.runs[0].nbytes).map((method) => at(method, state.budget)).filter(Boolean);
    const best = [...points].sort((a, b) => b.accuracy - a.accuracy)[0];
    const split = points.filter((p) => p.family === "split").sort((a, b) => b.accuracy - a.accuracy)[0];
    const said = !best
      ? `${bytes(state.budget)}: not one method has a result yet.`
      : `With ${bytes(state.budget)}: ${best.name} is best, ${percent(best.accuracy)} of the test images are right. ` +
        (split && split !== best ? `The best split method has ${percent(split.accuracy)}.` : "") +
        (split ? "" : "No split method has a result yet.");
    byId("said").textContent = said;
    explore.picture(place, `Accuracy over bytes of ${points.length} methods. ${said}`, (width) => {
      const { narrow, height, box } = explore.frame(width, 380, 300);
      const x = explore.scale(4e5, 1.2e9, box.left, box.right, true, narrow ? 4 : 6);
      const y = explore.accuracyScale(0.5, 0.983, box.bottom, box.top);
      const line = x.at(state.budget);
      const parts = [explore.axes(box, { scale: x, words: explore.brief(bytes), title: "bytes sent so far (log)" },
        { scale: y, words: explore.brief(percent), title: "test accuracy (log of the errors)" })];
      parts.push(`<path class="rule" d="M${line} ${box.top}V${box.bottom}"/><circle class="grip" cx="${line}" cy="${box.top}" r="7"/>`);
      const visible = points.filter((p) => p.accuracy >= 0.5), taken = [[line - 4, box.top, line + 4, box.bottom]];
      parts.push(`<clipPath id="inside"><path d="M${box.left} ${box.top}H${box.right}V${box.bottom}H${box.left}z"/></clipPath>`);
      for (const p of points) {
        const path = explore.path(p.trail.map(([b, a]) => [x.at(b), y.at(Math.max(a, 0.01))]));
        parts.push(`<path class="line thin trail ${p.family === "federated" ? "one" : "two"}" clip-path="url(#inside)" d="${path}"/>`);
      }
      for (const p of visible) {
        const px = x.at(p.cost), py = y.at(p.accuracy), federated = p.family === "federated";
        parts.push(explore.mark(federated ? "circle" : "square", px, py, federated ? "one" : "two", p === best ? 7 : 5));
        if (p === best) parts.push(explore.ring(px, py));
        taken.push(explore.around(px, py, 6));
      }
      const wanted = [best, split].filter((p, i, all) => p && p.accuracy >= 0.5 && all.indexOf(p) === i)
        .map((p) => ({ x: x.at(p.cost), y: y.at(p.accuracy), words: p.name, must: !narrow, look: p === best ? "strong" : "", off: p === best ? 14 : 10 }));
      parts.push(explore.labels(wanted, box, taken));
      return { height, body: parts.join("") };
    });
  };

  const set = explore.page({
    defaults: { budget: 10e6 },
    stops: { budget: BUDGETS },
    words: { budget: bytes },
    render,
  });

  /* Play: the budget grows from 1 MB to 1 GB in ten seconds. It starts when asked for, not by itself. */
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "▶ play"; byId("said").setAttribute("aria-live", "polite"); };
  play.addEventListener("click", () => {
    if (timer) return stop();
    let i = 0;
    play.textContent = "❚❚ pause";
    byId("said").setAttribute("aria-live", "off"); // a sentence ten times a second is noise
    timer = setInterval(() => { set({ budget: BUDGETS[i] }); if (++i === BUDGETS.length) stop(); }, 85);
  });
  byId("budget").addEventListener("pointerdown", () => timer && stop());
})();
