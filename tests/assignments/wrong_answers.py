"""Typical wrong answers to the assignments, and which hidden checks each must lose: these, no other.

For each: the assignment's number, a name, {answer cell: source}, {hidden checks lost}. A source given as a
pair (old, new) is the master's solution with one thing changed.
"""

# ruff: noqa: E501 (code in strings)
from typing import NamedTuple

Change = tuple[str, str]


class Wrong(NamedTuple):
    """A mistake and its price."""

    assignment: int
    name: str
    answer: str
    source: str | Change
    lost: set[str]


WRONG = [
    Wrong(
        1,
        "never detached",
        "a1-split-step",
        ("h.detach().requires_grad_()", "h; up.retain_grad()"),
        {"a1-step-messages", "a1-step-weights"},
    ),
    Wrong(
        1,
        "never split",
        "a1-split-step",
        "def split_step(bottom, top, x, y, lr):\n    both = [*bottom.parameters(), *top.parameters()]\n"
        "    h = bottom(x)\n    loss = nn.functional.cross_entropy(top(h), y)\n"
        "    grads = torch.autograd.grad(loss, [h, *both])\n    with torch.no_grad():\n"
        "        for p, g in zip(both, grads[1:]):\n            p -= lr * g\n"
        "    return loss.item(), h.detach(), grads[0]",
        {"a1-step-messages", "a1-step-weights"},
    ),
    Wrong(
        1,
        "Alice does not learn",
        "a1-split-step",
        (
            "[*bottom.parameters(), *top.parameters()]:\n            p -= lr",
            "top.parameters():\n            p -= lr",
        ),
        {"a1-step-weights"},
    ),
    Wrong(1, "gradients pile up", "a1-split-step", ("p.grad = None", "pass"), {"a1-step-weights"}),
    Wrong(1, "uphill", "a1-split-step", ("p -= lr", "p += lr"), {"a1-step-weights"}),
    Wrong(
        1,
        "down is forgotten",
        "a1-split-step",
        ("up.detach(), down", "up.detach(), up.detach()"),
        {"a1-step-messages"},
    ),
    Wrong(
        1,
        "no headers",
        "a1-epoch-bill",
        "def epoch_bill(n, batch, cut):\n    return 4 * n * cut, 4 * n * cut",
        {"a1-epoch-bill-check"},
    ),
    Wrong(
        1,
        "whole batches only",
        "a1-epoch-bill",
        ("batch = min(batch_size, num_samples - start)", "batch = batch_size"),
        {"a1-epoch-bill-check"},
    ),
    Wrong(
        1,
        "a header of 12 bytes, always",
        "a1-epoch-bill",
        "def epoch_bill(n, batch, cut):\n    one = 4 * n * cut + 12 * -(-n // batch)\n    return one, one",
        {"a1-epoch-bill-check"},
    ),
    Wrong(
        1, "one direction", "a1-affordable-steps", ('in "hg"', 'in "h"'), {"a1-affordable-check"}
    ),
    Wrong(
        1,
        "one step too many",
        "a1-affordable-steps",
        ("sum(step)", "sum(step) + 1"),
        {"a1-affordable-check"},
    ),
    # -------------------------------------------------------------------------------- 2
    Wrong(
        2,
        "reference moves always",
        "a2-gate",
        ("if abs(self", "last, self.reference = self.reference, loss\n        if abs(last"),
        {"a2-gate-check", "a2-gate-odd"},
    ),
    Wrong(
        2,
        "falling losses only",
        "a2-gate",
        ("abs(self.reference - loss)", "(self.reference or 1e9) - loss"),
        {"a2-gate-check", "a2-gate-odd"},
    ),
    Wrong(
        2,
        "equal is not enough",
        "a2-gate",
        (">= self.threshold", "> self.threshold"),
        {"a2-gate-odd"},
    ),
    Wrong(2, "NaN not noticed", "a2-gate", ("loss != loss", "False"), {"a2-gate-odd"}),
    Wrong(
        2,
        "one state for all gates",
        "a2-gate",
        (
            "def check(self, loss):",
            "def check(self, loss):\n        mine, self = self, Gate\n        self.threshold = mine.threshold\n"
            "        self.reference, self.state = getattr(Gate, 'reference', 0.0), getattr(Gate, 'state', 'A')",
        ),
        {"a2-gate-check", "a2-gate-odd"},
    ),
    Wrong(
        2,
        "never in C",
        "a2-gate",
        ('if self.state == "A" else "C"', ""),
        {"a2-gate-check", "a2-gate-odd"},
    ),
    Wrong(2, "state C uploads", "a2-bill", ('"C": 0', '"C": up'), {"a2-bill-check"}),
    Wrong(
        2,
        "announcements are free",
        "a2-bill",
        ("(len(states) - 1) * control", "0"),
        {"a2-bill-check"},
    ),
    Wrong(
        2,
        "one announcement too many",
        "a2-bill",
        ("(len(states) - 1)", "len(states)"),
        {"a2-bill-check"},
    ),
    Wrong(
        2, "by position", "a2-cache", ("zip(ids.tolist(), h)", "enumerate(h)"), {"a2-cache-check"}
    ),
    Wrong(2, "no copy", "a2-cache", (".detach().clone()", ""), {"a2-cache-check"}),
    Wrong(
        2,
        "one memory for all caches",
        "a2-cache",
        ("def __init__(self):\n        self.rows = {}", "rows = {}"),
        {"a2-cache-check"},
    ),
    Wrong(
        2,
        "strangers are zero",
        "a2-cache",
        ("self.rows[i] for i", "self.rows.get(i, torch.zeros(3)) for i"),
        {"a2-cache-check"},
    ),
    # -------------------------------------------------------------------------------- 3
    Wrong(3, "plain mean", "a3-mean", ("n / total * u[k]", "u[k] / len(sizes)"), {"a3-mean-check"}),
    Wrong(
        3,
        "in place",
        "a3-mean",
        "def weighted_mean(updates, sizes):\n    for u, n in zip(updates, sizes):\n        for k in u:\n"
        "            u[k] *= n / sum(sizes)\n    return {k: sum(u[k] for u in updates) for k in updates[0]}",
        {"a3-mean-check"},
    ),
    Wrong(
        3,
        "start minus end",
        "a3-local",
        ("local[name] - model[name]", "model[name] - local[name]"),
        {"a3-local-check"},
    ),
    Wrong(3, "one step", "a3-local", ("range(steps)", "range(1)"), {"a3-local-check"}),
    Wrong(
        3,
        "the end itself",
        "a3-local",
        ("local[name] - model[name]", "local[name]"),
        {"a3-local-check"},
    ),
    Wrong(3, "never is late", "a3-arrivals", ("if when < math.inf", ""), {"a3-arrivals-check"}),
    Wrong(
        3,
        "by name",
        "a3-arrivals",
        ("names[:wait_for]", "sorted(names[:wait_for])"),
        {"a3-arrivals-check"},
    ),
    Wrong(
        3,
        "the last one counts",
        "a3-arrivals",
        ("order[min(wait_for, len(order)) - 1][0]", "order[-1][0]"),
        {"a3-arrivals-check"},
    ),
    Wrong(
        3, "stale is fresh", "a3-shares", ("n / math.sqrt(1 + now - s)", "n"), {"a3-shares-check"}
    ),
    Wrong(3, "not normalized", "a3-shares", ("w / sum(worth)", "w"), {"a3-shares-check"}),
    Wrong(
        3,
        "linear in staleness",
        "a3-shares",
        ("math.sqrt(1 + now - s)", "(1 + now - s)"),
        {"a3-shares-check"},
    ),
    Wrong(
        3,
        "by position",
        "a3-momentum",
        ("for client, g in zip(cohort, gradients)", "for client, g in enumerate(gradients)"),
        {"a3-momentum-check"},
    ),
    Wrong(
        3,
        "one velocity for all objects",
        "a3-momentum",
        (
            "def __init__(self, beta):\n        self.beta, self.velocity = beta, {}",
            "velocity = {}\n\n    def __init__(self, beta):\n        self.beta = beta",
        ),
        {"a3-momentum-check"},
    ),
    Wrong(
        3,
        "nothing kept",
        "a3-momentum",
        ("self.velocity.get(client, 0)", "0"),
        {"a3-momentum-check"},
    ),
    # -------------------------------------------------------------------------------- 4
    Wrong(4, "rounds down", "a4-encode", (".round()", ".floor()"), {"a4-encode-check"}),
    Wrong(
        4,
        "256 steps",
        "a4-encode",
        ("(high - low) / 255", "(high - low) / 256"),
        {"a4-encode-check"},
    ),
    Wrong(
        4, "range as float64", "a4-encode", ('"<ff"', '"<dd"'), {"a4-encode-check", "a4-encode-odd"}
    ),
    Wrong(
        4, "NaN travels", "a4-encode", ("not torch.isfinite(x).all()", "False"), {"a4-encode-odd"}
    ),
    Wrong(
        4,
        "constant divided by zero",
        "a4-encode",
        ("(high - low) / 255 if high > low else torch.tensor(1.0)", "(high - low) / 255"),
        {"a4-encode-odd"},
    ),
    Wrong(
        4,
        "constant refused",
        "a4-encode",
        ("not torch.isfinite(x).all()", "not x.min() < x.max()"),
        {"a4-encode-odd"},
    ),
    Wrong(4, "decodes 256 steps", "a4-decode", ("/ 255", "/ 256"), {"a4-decode-check"}),
    Wrong(4, "flat", "a4-decode", (".reshape(shape)", ""), {"a4-decode-check"}),
    Wrong(
        4,
        "nearest again",
        "a4-encode-randomly",
        ("+ u).floor()", ").round()"),
        {"a4-encode-randomly-check"},
    ),
    Wrong(
        4, "the other way", "a4-encode-randomly", ("+ u)", "+ 1 - u)"), {"a4-encode-randomly-check"}
    ),
    Wrong(
        4,
        "true 8 bits",
        "a4-cousin",
        ("8 + 4 * -(-count * bits // 28)", "8 + -(-count * bits // 8)"),
        {"a4-cousin-check"},
    ),
    Wrong(
        4,
        "whole codes a word",
        "a4-cousin",
        ("-(-count * bits // 28)", "-(-count // (28 // bits))"),
        {"a4-cousin-check"},
    ),
    Wrong(4, "no range", "a4-cousin", ("8 + 4", "4"), {"a4-cousin-check"}),
    # -------------------------------------------------------------------------------- 5
    Wrong(
        5,
        "lost sign",
        "a5-top-k",
        ("flat[places]\n", "flat[places].abs()\n"),
        {"a5-top-k-check", "a5-top-k-odd"},
    ),
    Wrong(
        5,
        "largest value",
        "a5-top-k",
        ("flat.abs().topk", "flat.topk"),
        {"a5-top-k-check", "a5-top-k-odd"},
    ),
    Wrong(
        5,
        "a threshold",
        "a5-top-k",
        "def top_k(x, k):\n    least = x.abs().flatten().topk(k).values[-1]\n    return x * (x.abs() >= least)",
        {"a5-top-k-odd"},
    ),
    Wrong(
        5,
        "shared residual",
        "a5-memory",
        ("self.owed[client] =", "client = 0; self.owed[client] ="),
        {"a5-memory-check"},
    ),
    Wrong(
        5,
        "only the last residual",
        "a5-memory",
        ("= wanted - sent", "= update - sent"),
        {"a5-memory-check"},
    ),
    Wrong(
        5,
        "one debt for all objects",
        "a5-memory",
        (
            "def __init__(self, k):\n        self.k, self.owed = k, {}",
            "owed = {}\n\n    def __init__(self, k):\n        self.k = k",
        ),
        {"a5-memory-check"},
    ),
    Wrong(5, "no memory", "a5-memory", ("self.owed.get(client, 0)", "0"), {"a5-memory-check"}),
    Wrong(
        5,
        "value > 0",
        "a5-masked-mean",
        (
            "w * m.float() for m, w in zip(masks, weights)",
            "w * (v > 0).float() for v, w in zip(values, weights)",
        ),
        {"a5-masked-mean-check"},
    ),
    Wrong(
        5,
        "sent zeros forgotten",
        "a5-masked-mean",
        (
            "w * m.float() for m, w in zip(masks, weights)",
            "w * (v * m != 0).float() for v, m, w in zip(values, masks, weights)",
        ),
        {"a5-masked-mean-check"},
    ),
    Wrong(
        5,
        "0/0",
        "a5-masked-mean",
        ("torch.where(weight > 0, total / weight.clamp(min=1e-12), 0.0)", "total / weight"),
        {"a5-masked-mean-check"},
    ),
    Wrong(
        5,
        "unweighted",
        "a5-masked-mean",
        (
            "def masked_mean(values, masks, weights):",
            "def masked_mean(values, masks, weights):\n    weights = [1] * len(weights)",
        ),
        {"a5-masked-mean-check"},
    ),
    Wrong(
        5,
        "divided by all",
        "a5-masked-mean",
        ("weight.clamp(min=1e-12)", "sum(weights)"),
        {"a5-masked-mean-check"},
    ),
    Wrong(
        5,
        "no places",
        "a5-cheaper",
        ("4 * k + min(4 * k, -(-n // 8))", "4 * k"),
        {"a5-cheaper-check"},
    ),
    Wrong(
        5, "indices always", "a5-cheaper", ("min(4 * k, -(-n // 8))", "4 * k"), {"a5-cheaper-check"}
    ),
    Wrong(5, "half a byte", "a5-cheaper", ("-(-n // 8)", "n // 8"), {"a5-cheaper-check"}),
]
