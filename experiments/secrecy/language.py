"""A small GPT under a secure sum: nats and bytes by kind, in the clear and in secret.

Few steps: this table is about bytes and equal weights, not about how well the model writes.
"""

import hashlib
import time
from collections.abc import Sequence
from functools import lru_cache, partial

import torch
from torch import nn

from experiments.runs import Result
from experiments.secrecy.run import sent_by
from experiments.secrecy.settings import TOPS
from fltoolkit import Channel, Party, evaluate, fedavg
from fltoolkit.codecs import Pipeline
from fltoolkit.federated import Local, Server, mean_of_all
from fltoolkit_research.data import load_text, partition_contiguous
from fltoolkit_research.intervals import mean_ci
from fltoolkit_research.models import gpt
from fltoolkit_research.secrecy import ROUNDS, Grid, PlainSum, SecureSum, SharedRotation

CLIENTS, NUM_ROUNDS, STEPS, CONTEXT = 10, 3, 6, 32
WAYS = ("float32, plain", *(f"{b} bits, {way}" for b in (8, 4, 2) for way in ("clear", "secret")))
LENGTH = 3.0  # of a client's update after these steps of AdamW, about


@lru_cache(maxsize=1)
def text():  # type: ignore[no-untyped-def]
    return load_text("topics")


def language(name: str, seed: int) -> Result:
    """One way to add, one seed."""
    start, topics = time.perf_counter(), text()
    x, y = topics.windows(CONTEXT)
    rows = partition_contiguous(len(x), CLIENTS)
    clients = {f"client {k}": (x[r], y[r]) for k, r in enumerate(rows)}
    model = gpt(len(topics.alphabet), context=CONTEXT, width=32, seed=seed)
    num_values, channel = sum(p.numel() for p in model.parameters()), Channel()
    how: object = mean_of_all
    if name != "float32, plain":
        bits = int(name.split()[0])
        top = TOPS[bits] * LENGTH / num_values**0.5
        kind = SecureSum if "secret" in name else PlainSum
        how = kind(Pipeline(SharedRotation(), Grid(bits, top=top)), seed=seed)
    local = Local(8, optimizer=partial(torch.optim.AdamW, lr=3e-3), steps=STEPS)
    settings = {"rounds": NUM_ROUNDS, "cohort": CLIENTS, "local": local, "seed": seed}
    for _ in fedavg(model, clients, channel, server=Server(mean=how), **settings):  # type: ignore[arg-type]
        pass
    test = (part[:200] for part in topics.windows(CONTEXT, "test"))
    loss = evaluate([Party("server", model, loss_fn=nn.NLLLoss())], *test)["test_loss"]
    weights = torch.cat([t.flatten() for t in model.state_dict().values()])
    kinds = sorted({t.kind for t in channel.transfers})
    per_client = NUM_ROUNDS * CLIENTS
    return {
        "what": "language",
        "name": name,
        "seed": seed,
        "nats": loss,
        "num_values": num_values,
        "up": {k: sent_by(channel, k, up=True) / per_client for k in kinds},
        "weights": hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16],
        "seconds": round(time.perf_counter() - start, 1),
    }


def language_table(results: Sequence[Result]) -> str:
    """Nats, kB up by kind, bits per value; and in how many pairs the weights are equal."""
    lines = [
        "| updates | nats per character | kB up: update | keys | shares | masked | unmasking "
        "| kB up, all | bits up per value |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in WAYS:
        mine = [r for r in results if r["name"] == name]
        if mine:
            up = mine[0]["up"]
            whole = sum(up.values())
            cells = [name, mean_ci([r["nats"] for r in mine], ".3f")]
            cells += [f"{up[k] / 1000:.2f}" if up.get(k) else "" for k in ("update", *ROUNDS)]
            cells += [f"{whole / 1000:.2f}", f"{8 * whole / mine[0]['num_values']:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    weights = {(r["name"], r["seed"]): r["weights"] for r in results}
    pairs = [
        (w, weights[clear])
        for (name, seed), w in weights.items()
        if "secret" in name and (clear := (name.replace("secret", "clear"), seed)) in weights
    ]
    same = sum(a == b for a, b in pairs)
    end = f"Secret runs with the weights of the clear run, to the bit: {same} of {len(pairs)}."
    return "\n".join([*lines, "", end])
