"""The third axis: what the receiver of a training's messages learns about the owners' images.

    python -m experiments.send_data.leak    # runs what is missing

On the task of docs/leakage.md (10,000 images of MNIST, 5,000 of the attacker's own, 1,000 that were
never trained on), so that the runs of split learning stored there stand in the same table. Each
row has accuracy, bytes and leak. Not here: tables and figure (report.py).
"""

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from experiments.leakage.run import dataset
from experiments.leakage.settings import TASKS
from experiments.pareto.settings import DIFFERENCES, DIFFERENCES_STC
from experiments.replications.shrink import Shrink
from experiments.replications.updates import inputs_from_update, match_samples, membership_auc
from experiments.runs import STORED, Result, digest, seeds_and_workers, sweep
from fltoolkit import SGD, Channel, Party, evaluate, splitnn_mlp
from fltoolkit.codecs import Codec, ErrorFeedback, Pipeline, Quantize
from fltoolkit.federated import Local, fedavg
from fltoolkit.trees import Tree
from fltoolkit_research.codecs import STC, ContextEntropy
from fltoolkit_research.leakage import Listener, explained_variance, train_decoder
from fltoolkit_research.pooled import lossless, lossless_nbytes, pool

RESULTS = STORED / "send_data_leak.jsonl"
TASK = TASKS["mnist"]
NUM_OWNERS, ROUNDS = 10, 20
STC_BOTH = {"update": ErrorFeedback(Pipeline(STC(0.01), ContextEntropy())), **DIFFERENCES_STC}
THREE_BITS = {"update": ErrorFeedback(Pipeline(Quantize(3), ContextEntropy())), **DIFFERENCES}


@dataclass(frozen=True)
class Setting:
    """Images that are sent, or owners who average."""

    name: str
    samples: Codec | None = None  # of images; None: owners average
    num_sent: int = TASK.num_own
    codecs: Mapping[str, Codec] = field(default_factory=dict)

    def key(self, _task: None, seed: int) -> str:
        """The same for the same run."""
        codecs = {kind: repr(codec) for kind, codec in self.codecs.items()}
        return digest([repr(self.samples), self.num_sent, codecs, NUM_OWNERS, ROUNDS, seed])


SETTINGS = [  # in the order of the table
    Setting("images, 8 bits per pixel", lossless()),
    Setting("images, 2 bits per pixel", lossless(Quantize(2))),
    Setting("images, 1 bit per pixel", lossless(Quantize(1))),
    Setting("images, 7 x 7 pixels, 1 bit", lossless(Shrink(4), Quantize(1))),
    Setting("1,000 of the images, 1 bit per pixel", lossless(Quantize(1)), 1000),
    Setting("ten owners average, float32"),
    Setting("ten owners average, 3 bits both ways", codecs=THREE_BITS),
    Setting("ten owners average, STC 1 % both ways", codecs=STC_BOTH),
]


def parts(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the owners' images, of the attacker's, and of strangers, as in docs/leakage.md."""
    order = torch.randperm(60_000, generator=torch.Generator().manual_seed(seed))
    own, auxiliary = order[: TASK.num_own], order[TASK.num_own :][: TASK.num_auxiliary]
    return own, auxiliary, torch.arange(TASK.num_victims)


@lru_cache(maxsize=3)
def nbytes_data(seed: int) -> int:
    """All of the owners' images and labels, without loss."""
    data, (own, _, _) = dataset(TASK.data), parts(seed)
    return lossless_nbytes(data.x_train[own], data.y_train[own])


def run(_task: None, setting: Setting, seed: int) -> Result:
    """Accuracy, bytes and leak of one run."""
    start = time.perf_counter()
    found = _averaged(setting, seed) if setting.samples is None else _sent(setting, seed)
    return {
        **{"key": setting.key(None, seed), "name": setting.name, "seed": seed, **found},
        **{"nbytes_data": nbytes_data(seed), "seconds": round(time.perf_counter() - start, 1)},
    }


def _sent(setting: Setting, seed: int) -> Result:
    """The receiver trains on what it gets as long as in split learning, and looks at it."""
    assert setting.samples is not None
    data, (own, auxiliary, victims) = dataset(TASK.data), parts(seed)
    rows = own[: setting.num_sent]
    channel = Channel({"samples": setting.samples, "labels": lossless()})
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed)
    bob = _party("bob", model, TASK.lr)
    shares = enumerate(rows.chunk(NUM_OWNERS))
    owners = {f"owner{k}": (data.x_train[r], data.y_train[r]) for k, r in shares}
    steps = -(-TASK.num_own // TASK.batch_size)  # as many as with all images
    how = {"batch_size": TASK.batch_size, "seed": seed, "steps_per_round": steps}
    list(pool(owners, bob, channel, rounds=TASK.epochs, **how))
    both, codec = (data.x_train[auxiliary], data.x_test[victims]), setting.samples
    seen = [codec.decode(codec.encode({"x": x}))["x"].flatten(1) for x in both]
    decoder = train_decoder(seen[0], data.x_train[auxiliary], seed=seed, max_epochs=25)
    guess = seen[1] if torch.equal(seen[1], data.x_test[victims]) else decoder(seen[1])
    explained = explained_variance(guess, data.x_test[victims], decoder.mean_input)
    share = setting.num_sent / TASK.num_own  # of the others nothing was sent
    return {
        **{"kind": "sent", **evaluate([bob], data.x_test, data.y_test), "nbytes": channel.nbytes()},
        **{"explained": share * explained, "membership": None},
    }


def _averaged(setting: Setting, seed: int) -> Result:
    """The server trains with ten owners, and looks at the updates of one of them, and at sums."""
    data, (own, auxiliary, victims) = dataset(TASK.data), parts(seed)
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed)
    shares = own.chunk(NUM_OWNERS)
    owners = {f"owner{k}": (data.x_train[r], data.y_train[r]) for k, r in enumerate(shares)}
    channel = Listener(setting.codecs, kinds=["update"])
    local = Local(batch_size=32, lr=0.1, epochs=1)
    size = {"rounds": ROUNDS, "cohort": NUM_OWNERS}
    list(fedavg(model, owners, channel, **size, local=local, seed=seed))
    mean_input = data.x_train[auxiliary].mean(0)
    mine, strangers = data.x_train[shares[0]], data.x_test[victims]
    single = [heard.tree for heard in channel.heard if heard.sender == "owner0"]
    sums = [_sum([h.tree for h in channel.heard if h.step == k + 1]) for k in range(ROUNDS)]
    whole = [_party("server", model, 0.1)]
    result: Result = {"kind": "averaged", **evaluate(whole, data.x_test, data.y_test)}
    for name, updates in (("single", single), ("sum", sums)):
        guesses = torch.cat([inputs_from_update(update) for update in updates])
        for who, x in (("members", mine), ("strangers", strangers)):
            result[f"{name}_{who}"] = match_samples(guesses, x, mean_input)._asdict()
    members = data.x_train[own], data.y_train[own]
    result["membership"] = membership_auc(whole, members, (data.x_test, data.y_test))
    result["one_step"] = {str(n): _one_step(seed, n) for n in (1, 8, 32, 1000)}
    return result | {"nbytes": channel.nbytes()}


def _one_step(seed: int, batch_size: int) -> dict[str, float]:
    """Explained variance of a batch from one gradient of the fresh model, float32."""
    data, (own, auxiliary, victims) = dataset(TASK.data), parts(seed)
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed)
    x, y = data.x_train[own[:batch_size]], data.y_train[own[:batch_size]]
    torch.nn.functional.nll_loss(model(x), y).backward()
    gradient = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    guesses, mean = inputs_from_update(gradient), data.x_train[auxiliary].mean(0)
    each = {"members": x, "strangers": data.x_test[victims]}
    return {who: match_samples(guesses, some, mean).explained for who, some in each.items()}


def _sum(updates: list[Tree]) -> Tree:
    return {name: torch.stack([u[name] for u in updates]).sum(0) for name in updates[0]}


def _party(name: str, model: torch.nn.Module, lr: float) -> Party:
    return Party(name, model, SGD(model.parameters(), lr=lr), torch.nn.NLLLoss())


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    seeds_and_workers(parser)
    parser.set_defaults(seeds=[0, 1, 2])
    args = parser.parse_args()
    jobs = [(None, setting, seed) for seed in args.seeds for setting in SETTINGS]
    sweep(run, jobs, RESULTS, workers=args.workers)


if __name__ == "__main__":
    main()
