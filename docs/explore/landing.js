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
  const CURVES = task.methods.flatMap((m) => m.runs.map((run) => run.curve)).flat(), LEAST = Math.min(...CURVES.map(([, right]) => right)) / task.num_test;
  const MOST = Math.max(...CURVES.map(([, right]) => right)) / task.num_test, CHEAPEST = Math.min(...task.methods.map(({ runs }) => mean(runs.map((run) => run.nbytes))).filter(Boolean));
  explore.legend([[explore.lookOf.federated, "federated"], [explore.lookOf.split, "split"],
    [explore.NULL, "no training together: the data sent, one sum, or each owner alone"]]);
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
    const points = task.methods.map((method) => at(method, state.budget)).filter(Boolean);
    const first = (...families) => points.filter((p) => families.includes(p.family)).sort((a, b) => b.accuracy - a.accuracy)[0];
    const best = first("federated", "split"), split = first("split"), none = first("null");
    const said = `With ${bytes(state.budget)}: ` + (best ? `${best.name} is best, ${percent(best.accuracy)} of the test images are right.` : "no method that trains together has a result yet.") +
      (split === best ? "" : split ? ` The best split method has ${percent(split.accuracy)}.` : " No split method has a result yet.") +
      ` Without training together, ${percent(none.accuracy)}: ${none.name}.`;
    byId("said").textContent = said;
    explore.picture(place, `Accuracy over bytes of ${points.length} methods. ${said}`, (width) => {
      const { narrow, height, box } = explore.frame(width, 380, 300);
      const x = explore.costScale(0.6 * CHEAPEST, 1.5e9, true, box, narrow ? 4 : 6);
      const y = explore.accuracyScale(LEAST - 0.2 * (1 - LEAST), MOST + 0.25 * (1 - MOST), box.bottom, box.top);
      const line = x.at(state.budget);
      const parts = [explore.axes(box, explore.bytesAxis(x, "bytes sent so far"), explore.accuracyAxis(y))];
      parts.push(`<path class="rule" d="M${line} ${box.top}V${box.bottom}"/><circle class="grip" cx="${line}" cy="${box.top}" r="7"/>`);
      const taken = [[line - 4, box.top, line + 4, box.bottom]];
      parts.push(explore.clip(box));
      for (const p of points) {
        const path = explore.path(p.trail.map(([b, a]) => [x.at(b), y.at(a)]));
        parts.push(`<path class="line thin trail ${explore.lookOf[p.family][1]}" clip-path="url(#inside)" d="${path}"/>`);
      }
      for (const p of points) {
        const px = x.at(p.cost), py = y.at(p.accuracy), [kind, look] = explore.lookOf[p.family];
        parts.push(explore.mark(kind, px, py, look, p === best ? 7 : 5));
        if (p === best) parts.push(explore.ring(px, py));
        taken.push(explore.around(px, py, p === best ? 12 : 6));
      }
      const wanted = [best, split, none].filter((p, i, all) => p && all.indexOf(p) === i)
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
