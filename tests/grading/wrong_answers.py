"""Typical wrong answers to the assignments, and which hidden checks each must lose: these, no other.

For each answer cell and the hidden checks lost: {name of the mistake: source}. A source given as a pair
(old, new) is the master's solution with one thing changed.
"""

# ruff: noqa: E501 (code in strings)
from typing import NamedTuple

Change = tuple[str, str]


class Wrong(NamedTuple):
    """A mistake and its price."""

    answer: str
    name: str
    source: str | Change
    lost: set[str]

    @property
    def assignment(self) -> int:
        """The number of the assignment, with which the ids of its cells begin."""
        return int(self.answer[1])


_MISTAKES: dict[tuple[str, str], dict[str, str | Change]] = {
    ("a1-split-step", "a1-step-messages a1-step-weights"): {
        "never detached": ("h.detach().requires_grad_()", "h; up.retain_grad()"),
        "never split": (
            "def split_step(bottom, top, x, y, lr):\n"
            "    both = [*bottom.parameters(), *top.parameters()]\n    h = bottom(x)\n"
            "    loss = nn.functional.cross_entropy(top(h), y)\n"
            "    grads = torch.autograd.grad(loss, [h, *both])\n    with torch.no_grad():\n"
            "        for p, g in zip(both, grads[1:]):\n            p -= lr * g\n"
            "    return loss.item(), h.detach(), grads[0]"
        ),
    },
    ("a1-split-step", "a1-step-weights"): {
        "Alice does not learn": (
            "[*bottom.parameters(), *top.parameters()]:\n            p -= lr",
            "top.parameters():\n            p -= lr",
        ),
        "gradients pile up": ("p.grad = None", "pass"),
        "uphill": ("p -= lr", "p += lr"),
    },
    ("a1-split-step", "a1-step-messages"): {
        "down is forgotten": ("up.detach(), down", "up.detach(), up.detach()")
    },
    ("a1-epoch-bill", "a1-epoch-bill-check"): {
        "no headers": "def epoch_bill(n, batch, cut):\n    return 4 * n * cut, 4 * n * cut",
        "whole batches only": (
            "batch = min(batch_size, num_samples - start)",
            "batch = batch_size",
        ),
        "a header of 12 bytes, always": (
            "def epoch_bill(n, batch, cut):\n    one = 4 * n * cut + 12 * -(-n // batch)\n"
            "    return one, one"
        ),
    },
    ("a1-affordable-steps", "a1-affordable-check"): {"one direction": ('in "hg"', 'in "h"')},
    # -------------------------------------------------------------------------------- 2
    ("a2-gate", "a2-gate-check a2-gate-odd"): {
        "reference moves always": (
            "if abs(self",
            "last, self.reference = self.reference, loss\n        if abs(last",
        ),
        "falling losses only": ("abs(self.reference - loss)", "(self.reference or 1e9) - loss"),
    },
    ("a2-gate", "a2-gate-odd"): {
        "equal is not enough": (">= self.threshold", "> self.threshold"),
        "NaN not noticed": ("loss != loss", "False"),
    },
    ("a2-bill", "a2-bill-check"): {
        "state C uploads": ('"C": 0', '"C": up'),
        "announcements are free": ("(len(states) - 1) * control", "0"),
    },
    ("a2-cache", "a2-cache-check"): {
        "no copy": (".detach().clone()", ""),
        "one memory for all caches": ("def __init__(self):\n        self.rows = {}", "rows = {}"),
    },
    # -------------------------------------------------------------------------------- 3
    ("a3-mean", "a3-mean-check"): {"plain mean": ("n / total * u[k]", "u[k] / len(sizes)")},
    ("a3-local", "a3-local-check"): {
        "a mean over samples alone": ("** 2).mean()", "** 2).sum(1).mean()"),
        "one step": ("range(steps)", "range(1)"),
    },
    ("a3-arrivals", "a3-arrivals-check"): {
        "who is late, in the order of the dict": (
            "names[wait_for:], end",
            "[n for n in seconds if n in names[wait_for:]], end",
        ),
        "never is late": ("if when < math.inf", ""),
        "the last one counts": ("order[min(wait_for, len(order)) - 1][0]", "order[-1][0]"),
    },
    ("a3-shares", "a3-shares-check"): {
        "stale is fresh": ("n / math.sqrt(1 + now - s)", "n"),
        "linear in staleness": ("math.sqrt(1 + now - s)", "(1 + now - s)"),
    },
    ("a3-momentum", "a3-momentum-check"): {
        "by position": (
            "for client, g in zip(cohort, gradients)",
            "for client, g in enumerate(gradients)",
        ),
        "nothing kept": ("self.velocity.get(client, 0)", "0"),
    },
    # -------------------------------------------------------------------------------- 4
    ("a4-encode", "a4-encode-check"): {
        "rounds down": (".round()", ".floor()"),
        "256 steps": ("(high - low) / 255", "(high - low) / 256"),
    },
    ("a4-encode", "a4-encode-check a4-encode-odd"): {"range as float64": ('"<ff"', '"<dd"')},
    ("a4-encode", "a4-encode-odd"): {
        "NaN travels": ("not torch.isfinite(x).all()", "False"),
        "constant divided by zero": (
            "(high - low) / 255 if high > low else torch.tensor(1.0)",
            "(high - low) / 255",
        ),
    },
    ("a4-decode", "a4-decode-check"): {"flat": (".reshape(shape)", "")},
    ("a4-encode-randomly", "a4-encode-randomly-check"): {
        "nearest again": ("+ u).floor()", ").round()")
    },
    ("a4-cousin", "a4-cousin-check"): {
        "true 8 bits": ("8 + 4 * -(-count * bits // 28)", "8 + -(-count * bits // 8)")
    },
    # -------------------------------------------------------------------------------- 5
    ("a5-top-k", "a5-top-k-check a5-top-k-odd"): {
        "lost sign": ("flat[places]\n", "flat[places].abs()\n"),
        "largest value": ("flat.abs().topk", "flat.topk"),
    },
    ("a5-top-k", "a5-top-k-odd"): {
        "a threshold": (
            "def top_k(x, k):\n    least = x.abs().flatten().topk(k).values[-1]\n"
            "    return x * (x.abs() >= least)"
        )
    },
    ("a5-memory", "a5-memory-check"): {
        "shared residual": ("self.owed[client] =", "client = 0; self.owed[client] ="),
        "no memory": ("self.owed.get(client, 0)", "0"),
    },
    ("a5-masked-mean", "a5-masked-mean-check"): {
        "sent zeros forgotten": (
            "w * m.float() for m, w in zip(masks, weights)",
            "w * (v * m != 0).float() for v, m, w in zip(values, masks, weights)",
        ),
        "value > 0": (
            "w * m.float() for m, w in zip(masks, weights)",
            "w * (v > 0).float() for v, w in zip(values, weights)",
        ),
        "0/0": ("torch.where(weight > 0, total / weight.clamp(min=1e-12), 0.0)", "total / weight"),
        "unweighted": (
            "def masked_mean(values, masks, weights):",
            "def masked_mean(values, masks, weights):\n    weights = [1] * len(weights)",
        ),
    },
    ("a5-cheaper", "a5-cheaper-check"): {
        "no places": ("4 * k + min(4 * k, -(-n // 8))", "4 * k"),
        "half a byte": ("-(-n // 8)", "n // 8"),
    },
    # -------------------------------------------------------------------------------- 6
    ("a6-hide", "a6-hide-check"): {
        "the higher number adds": ("u < v", "u > v"),
        "everybody adds": ("hidden + mask if u < v else hidden - mask", "hidden + mask"),
        "not on the clock": ("hidden % 2**bits", "hidden"),
        "the clinic's own array changes": (
            "def hide(u, numbers, masks, bits):\n    for v, mask in masks.items():\n"
            "        numbers += mask if u < v else -mask\n    return numbers % 2**bits"
        ),
    },
    ("a6-bits", "a6-bits-check a6-nbytes-check"): {
        "side by side": ("(num_clients * (2**bits - 1)).bit_length()", "num_clients * bits"),
        "bits and the logarithm, rounded up": (
            "(num_clients * (2**bits - 1)).bit_length()",
            "bits + (num_clients - 1).bit_length()",
        ),
    },
    ("a6-bits", "a6-nbytes-check"): {
        "a whole byte each": (
            "-(-num_values * bits_of_sum(num_clients, bits) // 8)",
            "num_values * -(-bits_of_sum(num_clients, bits) // 8)",
        )
    },
    ("a6-total", "a6-total-check"): {
        "masks stay": ("masks.keys() & sent.keys()", "set()"),
        "not modulo": ("result % 2**bits", "result"),
    },
    ("a6-mean", "a6-mean-check"): {
        "2^bits steps": ("(2**bits - 1)", "2**bits"),
        "the sum": ("summed / count", "summed"),
    },
    # -------------------------------------------------------------------------------- 7
    ("a7-windows", "a7-windows-check a7-windows-end"): {
        "labels are inputs": ("ids[1 : count * context + 1]", "ids[: count * context]"),
        "the character before": (
            "y = ids[1 : count * context + 1].reshape(count, context)",
            "y = x.roll(1, 1)",
        ),
        "overlapping": (
            "x = ids[: count * context].reshape(count, context)",
            "x = ids[:-1].unfold(0, context, 1)[:count]",
        ),
    },
    ("a7-windows", "a7-windows-end"): {
        "one window too many": ("(len(ids) - 1) // context", "len(ids) // context")
    },
    ("a7-nats", "a7-nats-check"): {
        "bits": (".mean().item()", ".mean().item() / 0.6931471805599453"),
        "per window": (".mean().item()", ".sum(2).mean().item()"),
        "a gain, not a loss": ("return -log", "return log"),
    },
    ("a7-bigram", "a7-bigram-check"): {
        "columns": ("counts.sum(1, keepdim=True)", "counts.sum(0, keepdim=True)"),
        "nothing added": ("torch.ones(", "torch.zeros("),
        "no logarithm": (".log()", ""),
    },
    ("a7-run-nbytes", "a7-run-nbytes-check"): {
        "one direction": ("2 * num_workers", "num_workers"),
        "every step": ("(steps // inner_steps)", "steps"),
        "half a byte": ("-(-num_parameters * bits // 8)", "num_parameters * bits // 8"),
        "no header": ("header + ", ""),
    },
    ("a7-worth", "a7-worth-check"): {
        "the text first": (
            'if loss >= loss_alone:\n        return "stay alone"\n    return "send the text" if nbytes > nbytes_text else "train together"',
            'if nbytes > nbytes_text:\n        return "send the text"\n    return "stay alone" if loss >= loss_alone else "train together"',
        ),
        "as good is better": ("loss >= loss_alone", "loss > loss_alone"),
    },
    # -------------------------------------------------------------------------------- 8
    ("a8-shrink", "a8-shrink-check"): {
        "one level too many": ("(2**bits - 1)", "2**bits"),
        "no whole numbers": (".round().long()", ".round()"),
    },
    ("a8-pack", "a8-pack-check a8-pack-end"): {
        "lowest bit first": ('f"{code:0{bits}b}"', 'f"{code:0{bits}b}"[::-1]'),
        "a byte for each": ("def pack(codes, bits):\n    return bytes(codes.flatten().tolist())"),
    },
    ("a8-pack", "a8-pack-end"): {
        "the end is lost": ('text += "0" * (-len(text) % 8)', "text = text[: len(text) // 8 * 8]"),
        "filled in front": (
            'text += "0" * (-len(text) % 8)',
            'whole = len(text) // 8 * 8\n    text = text[:whole] + (text[whole:].zfill(8) if text[whole:] else "")',
        ),
    },
    ("a8-unpack", "a8-unpack-check"): {
        "the bytes": ("def unpack(message, count, bits):\n    return torch.tensor(list(message))")
    },
    ("a8-data-nbytes", "a8-data-nbytes-check"): {
        "no labels": ("images + labels", "images"),
        "a byte per label": (
            "-(-num_samples * (num_classes - 1).bit_length() // 8)",
            "num_samples",
        ),
    },
    ("a8-last-round", "a8-last-round-check"): {
        "the first that is too much": (
            "nbytes_of_data // round_nbytes",
            "nbytes_of_data // round_nbytes + 1",
        )
    },
}

WRONG = [
    Wrong(answer, name, source, set(lost.split()))
    for (answer, lost), mistakes in _MISTAKES.items()
    for name, source in mistakes.items()
]

_IN_ANOTHER_TYPE = {
    ("a1-split-step", "split_step"): ["[r[0], r[1].tolist(), r[2].double().numpy()]"],
    ("a1-epoch-bill", "epoch_bill"): ["[*map(torch.tensor, r)]"],
    ("a3-mean", "weighted_mean"): [
        "{k: v.numpy() if k == 'w' else v.tolist() for k, v in r.items()}",
        "{k: v.double() for k, v in reversed(r.items())}",
    ],
    ("a3-local", "local_update"): [
        "{k: v.numpy() if k == 'w' else v.tolist() for k, v in r.items()}",
        "{k: v.double() for k, v in reversed(r.items())}",
    ],
    ("a3-arrivals", "arrivals"): ["(tuple(r[0]), tuple(r[1]), r[2])", "[*r]"],
    ("a3-shares", "shares"): ["tuple(r)", "torch.tensor(r)"],
    ("a4-encode", "encode"): ["bytearray(r)", "list(r)"],
    ("a4-decode", "decode"): ["r.double()", "r.tolist()"],
    ("a5-top-k", "top_k"): ["r.numpy()", "r.double()"],
    ("a5-masked-mean", "masked_mean"): ["r.tolist()", "r.double()"],
    ("a6-hide", "hide"): ["r.astype(float)", "r.tolist()"],
    ("a6-total", "total"): ["r.astype(float)", "r.tolist()"],
    ("a6-mean", "mean_of"): ["r.tolist()", "r.astype('float32')"],
    ("a7-windows", "windows"): ["(r[0].numpy(), r[1].numpy())", "[r[0].tolist(), r[1].tolist()]"],
    ("a7-bigram", "bigram"): ["r.float()", "r.numpy()"],
    ("a8-pack", "pack"): ["bytearray(r)", "list(r)"],
    ("a8-unpack", "unpack"): ["r.float()", "r.tolist()"],
}
IN_ANOTHER_TYPE = [
    (answer, f"{name} = (lambda f: lambda *a: (lambda r: {value})(f(*a)))({name})")
    for (answer, name), values in _IN_ANOTHER_TYPE.items()
    for value in values
]
_STEP = """
def split_step(bottom, top, x, y, lr):
    up = bottom(x).detach().requires_grad_()
    z = {output}
    loss = nn.functional.cross_entropy(z, y)
    down, *bobs = torch.autograd.grad(loss, [up, *top.parameters()])
    alices = torch.autograd.grad(bottom(x), [*bottom.parameters()], down)
    with torch.no_grad():
        for p, g in zip([*bottom.parameters(), *top.parameters()], [*alices, *bobs]):
            p -= lr * g
    return loss.item(), up.detach(), down
"""
IN_ANOTHER_TYPE += [
    ("a1-split-step", _STEP.format(output="top[1](top[0](up))")),  # the halves layer by layer
    ("a1-split-step", _STEP.format(output="top(up) + 0 * top(up.detach())")),  # computed twice
]
"""Right values in another type, or in another way: what is written below a solution."""
