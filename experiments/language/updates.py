"""Text read from a worker's update, after 1, 10 and 65 local steps: characters, and membership.

    python -m experiments.language.updates --write  # into docs/language_results.md: half a minute

The inputs of the first attention layer span the rows of its gradient (DAGER, Petrov et al. 2024,
arXiv 2405.15586). So for each place in a window those characters are guessed whose vectors are
nearest to the span of the update's rows. Membership: by how much the update lowers the loss of a
window that was trained on, against windows of the test part.
"""

from functools import partial

import torch
from torch import Tensor, nn

from experiments.language.command import page_of
from experiments.language.data_parallel import TWO_BITS
from experiments.language.task import FRESH_SEEDS, Task, model_of, text_of
from experiments.runs import share_ci
from experiments.tables import markdown
from fltoolkit import Channel
from fltoolkit_research.federated import muon_for
from fltoolkit_research.leakage import auc

WAYS = {"SGD": partial(torch.optim.SGD, lr=0.1), "AdamW": partial(torch.optim.AdamW, lr=3e-3)}
ROWS = [(way, steps, 1, 32, {}) for way in ("SGD", "AdamW", "Muon") for steps in (1, 10)]
ROWS += [("Muon", 1, 1, 32, TWO_BITS)]
ROWS += [("Muon", steps, 8, 64, codec) for steps in (1, 10, 65) for codec in ({}, TWO_BITS)]
NUM_TOLD = 64  # windows that membership is asked of, and as many others


def attacked(
    way: str, steps: int, windows: int, size: int, codecs: dict, seed: int
) -> dict[str, float]:
    """Learn from fresh weights, send the update, attack what arrives; the seed draws both."""
    text, model = text_of(Task.text), model_of(Task(), seed)
    x, y = text.windows(size)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    x, y = (t[rows[: steps * windows]] for t in (x, y))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimizer = (WAYS | {"Muon": muon_for(model, lr=0.02)})[way](list(model.parameters()))
    for inputs, labels in zip(x.split(windows), y.split(windows), strict=True):
        optimizer.zero_grad()
        nn.functional.nll_loss(model(inputs), labels).backward()
        optimizer.step()
    update = {name: weight - before[name] for name, weight in model.state_dict().items()}
    channel = Channel(codecs)
    update = channel.send("worker", "server", "update", update)
    test = text.windows(size, "test")
    asked = [
        torch.cat([t[:NUM_TOLD], others[:NUM_TOLD]]) for t, others in ((x, test[0]), (y, test[1]))
    ]
    model.load_state_dict({name: before[name] + update[name] for name in before})
    after = losses(model, *asked)
    model.load_state_dict(before)
    fallen, member = losses(model, *asked) - after, torch.arange(len(after)) < len(x[:NUM_TOLD])
    true = nn.functional.one_hot(x, len(text.alphabet)).amax(0).bool()  # at each place
    often = text.train.bincount(minlength=len(text.alphabet)).double().expand(size, -1)
    guesses = inside(model, update["1.qkv.weight"], size)
    found = {"found": 100 * right(guesses, true), "null": 100 * right(often, true)}
    return found | {"auc": auc(fallen, member), "kB": channel.nbytes() / 1e3}


@torch.no_grad()
def losses(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The mean loss of each window, in nats."""
    return nn.functional.nll_loss(model(x), y, reduction="none").mean(1)


@torch.no_grad()
def inside(model: nn.Sequential, update: Tensor, size: int) -> Tensor:
    """How much of the vector of each character at each place is in the span [places, alphabet]."""
    vectors = model[0].what.weight[None] + model[0].where.weight[:size, None]
    vectors = model[1].norm_1(vectors).double()
    _, sizes, span = torch.linalg.svd(update.double(), full_matrices=False)
    rank = min(int((sizes > 1e-4 * sizes[0]).sum()), len(sizes) - 1)
    return (vectors @ span[:rank].T).square().sum(2) / vectors.square().sum(2)


def right(scores: Tensor, true: Tensor) -> float:
    """Of as many guesses at each place as it has characters, the share that is right."""
    ranks = scores.argsort(1, descending=True).argsort(1)
    return float(true[ranks < true.sum(1, keepdim=True)].double().mean())


def table() -> str:
    """A row for each way to learn, with intervals over five seeds."""
    rows = []
    for way, steps, windows, size, codecs in ROWS:
        runs = [attacked(way, steps, windows, size, codecs, seed) for seed in FRESH_SEEDS]
        percents = [share_ci([run[key] for run in runs], ".1f") for key in ("found", "null")]
        told = share_ci([run["auc"] for run in runs], most=1.0)
        sent = f"{way}, 2 bits" if codecs else way
        rows.append([sent, steps, f"{windows} of {size}", f"{runs[0]['kB']:.1f}", *percents, told])
    head = "update | local steps | windows a step | kB | characters found [%]"
    return markdown(f"{head} | null: the most frequent [%] | membership (AUC)", rows)


if __name__ == "__main__":
    page_of("updates").command(table, __doc__)
