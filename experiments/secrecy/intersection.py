"""What it costs to find whom two owners share, beside the vertical training that follows.

Ann has the left halves of MNIST images and their labels, Ben the right halves, each in an order of
its own. They share some of them. Not here: the protocol, which is in
experiments/replications/intersection.py.
"""

import time
from collections.abc import Sequence
from statistics import mean

import torch
from torch import Tensor, nn

from experiments.replications.intersection import align
from experiments.runs import Result, share_ci
from experiments.secrecy.run import dataset
from experiments.tables import markdown
from fltoolkit import SGD, Channel, Party, load, train_vertical
from fltoolkit.codecs import Pipeline
from fltoolkit.models import seeded
from fltoolkit_research.codecs import EDEN
from fltoolkit_research.pooled import lossless_nbytes

SIZES, SHARED = (100, 1000, 10_000), 0.8
WAYS = {
    "float32": (True, True, None),
    "2 bits": (True, True, Pipeline(EDEN(2))),
    "2 bits, each in its own order": (False, True, Pipeline(EDEN(2))),
    "Ann alone": (True, False, None),
}
"""Whether rows are aligned, whether Ben takes part, the codec of both directions."""
EPOCHS, BATCH_SIZE, WIDTH, LR = 5, 50, 32, 0.2


def intersection(num_ids: int, seed: int) -> Result:
    """Bytes and seconds of ``align``, and of trainings after it."""
    data, shared = load("mnist"), int(SHARED * num_ids)
    order = torch.randperm(len(data.y_train), generator=torch.Generator().manual_seed(seed))
    rows = {"ann": order[:num_ids], "ben": order[num_ids - shared : 2 * num_ids - shared].flip(0)}
    ids = {name: [f"image {k}" for k in own.tolist()] for name, own in rows.items()}
    channel, start = Channel(), time.process_time()
    found = align(channel, ids)
    seconds = time.process_time() - start
    assert torch.equal(rows["ann"][found["ann"]], rows["ben"][found["ben"]])
    x, halves = data.x_train.reshape(-1, 28, 28), {"ann": slice(14), "ben": slice(14, 28)}
    x = {name: x[own][..., halves[name]].reshape(len(own), -1) for name, own in rows.items()}
    y = data.y_train[rows["ann"]]
    ways = {}
    for name, (aligned, both, codec) in WAYS.items():
        order = found if aligned else {"ann": found["ann"], "ben": torch.arange(shared)}
        xs = [x[owner][order[owner]] for owner in (("ann", "ben") if both else ("ann",))]
        ways[name] = trained(xs, y[found["ann"]], codec, seed)
    return {
        "what": "intersection",
        "num_ids": num_ids,
        "shared": shared,
        "seed": seed,
        "sent": {name: channel.nbytes(sender=name) for name in ids},
        "seconds": seconds,
        "ways": ways,
        "send the data": lossless_nbytes(x["ben"][found["ben"]].reshape(-1, 28, 14)),
    }


def trained(xs: Sequence[Tensor], y: Tensor, codec: Pipeline | None, seed: int) -> Result:
    """Accuracy, bytes and seconds of one vertical training; the label party has the top."""
    names = ("ann", "ben")[: len(xs)]
    with seeded(seed):
        parties = [_party(n, nn.Sequential(nn.Linear(392, WIDTH), nn.ReLU())) for n in names]
        top = nn.Sequential(nn.Linear(WIDTH * len(xs), 10), nn.LogSoftmax(1))
    label_party = _party("label party", top, nn.NLLLoss())
    batches, random = [], torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        batches += torch.randperm(len(y), generator=random).split(BATCH_SIZE)
    kinds = ("activations", "gradients") if codec else ()
    channel, start = Channel(dict.fromkeys(kinds, codec)), time.process_time()
    stream = [(tuple(x[rows] for x in xs), y[rows]) for rows in batches]
    for _ in train_vertical(parties, label_party, stream, channel):
        pass
    return {
        "accuracy": _accuracy(parties, label_party),
        "nbytes": channel.nbytes() if len(xs) > 1 else 0,  # alone, nothing need be sent
        "seconds": time.process_time() - start,
    }


def _party(name: str, module: nn.Module, loss: nn.Module | None = None) -> Party:
    return Party(name, module, SGD(module.parameters(), lr=LR), loss)


def _accuracy(parties: Sequence[Party], label_party: Party) -> float:
    data = dataset("mnist")
    x = data.x_test.reshape(-1, 28, 28)
    halves = (x[..., :14].flatten(1), x[..., 14:].flatten(1))
    with torch.no_grad():
        hs = [party.module(half) for party, half in zip(parties, halves, strict=False)]
        guess = label_party.module(torch.cat(hs, 1)).argmax(1)
    return float((guess == data.y_test).double().mean())


def intersection_table(results: Sequence[Result]) -> str:
    """Rows for each number of ids: the intersection, then each way to go on."""
    found = []
    for size in sorted({r["num_ids"] for r in results}):
        mine = [r for r in results if r["num_ids"] == size]
        head = f"{size:,} ({mine[0]['shared']:,})"
        both = [sum(r["sent"].values()) for r in mine]
        found.append([head, "`align`", "", _kb(both), _mean(mine, "seconds")])
        for name in WAYS:
            ways = [r["ways"][name] for r in mine]
            right = share_ci([100 * w["accuracy"] for w in ways])
            sent = _kb([w["nbytes"] for w in ways])
            found.append([head, f"training, {name}", right, sent, _mean(ways, "seconds")])
        whole = _kb([r["send the data"] for r in mine])
        found.append([head, "Ben's halves, sent without loss", "as float32", whole, ""])
    return markdown("ids of each owner (shared) | what | accuracy % | kB | CPU s", found)


def _kb(values: Sequence[float]) -> str:
    return f"{mean(values) / 1000:,.1f}"


def _mean(results: Sequence[Result], name: str) -> str:
    return f"{mean(r[name] for r in results):.2f}"
