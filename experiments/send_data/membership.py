"""Membership for split learning: is a sample's loss lower if the network was trained on it?

    python -m experiments.send_data.membership    # runs what is missing, seconds each

The runs of docs/leakage.md are trained again, with the same seeds and codecs, since their networks
were not kept; a test compares the accuracies. The attacker has both halves of the network, as the
label party has once the owners give away the bottom, and knows candidate samples with their labels.
"""

import argparse
import time
from pathlib import Path

from torch import nn

from experiments.leakage.run import dataset
from experiments.leakage.settings import TASKS, UP, Setting, Task, activations
from experiments.replications.updates import membership_auc
from experiments.runs import Result, sweep
from experiments.send_data.leak import parts
from fltoolkit import SGD, Batches, Channel, Party, evaluate, splitnn_mlp
from fltoolkit.split import train_split

PATH = Path(__file__).parents[1] / "results" / "send_data_membership.jsonl"
NAMES = ("float32", "8 bits", "2 bits", "top-k 10%")
"""The runs of docs/leakage.md that stand in the table of the third axis."""


def settings() -> list[Setting]:
    """The codecs on the activations that the page shows."""
    return [setting for setting in activations() if setting.name in NAMES]


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Train as `experiments.leakage.run` does, and compare losses of members and strangers."""
    start, data = time.perf_counter(), dataset(task.data)
    own, _, _ = parts(seed)
    x, y = data.x_train[own], data.y_train[own]
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed)
    bottom, top = model[:4], model[4:]
    alice = Party("alice", bottom, SGD(bottom.parameters(), lr=task.lr))
    bob = Party("bob", top, SGD(top.parameters(), lr=task.lr), nn.NLLLoss())
    batches = Batches(x, y, task.batch_size, seed=seed)
    for _ in train_split([alice, bob], batches.epochs(task.epochs), Channel(setting.codecs)):
        pass
    whole, strangers = [alice, bob], (data.x_test, data.y_test)
    through = setting.in_use or setting.up
    return {
        **{"key": setting.key(task, seed), "part": UP, "name": setting.name, "seed": seed},
        "accuracy": evaluate(whole, *strangers, through=through)["accuracy"],
        "membership": membership_auc(whole, (x, y), strangers),
        "seconds": round(time.perf_counter() - start, 1),
    }


def summary(result: Result) -> str:
    """The result in one line."""
    return f"{100 * result['accuracy']:6.2f} %, AUC {result['membership']:.4f}"


def main() -> None:
    """Run what is missing."""
    task, parser = TASKS["mnist"], argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=task.seeds)
    parser.add_argument("--out", type=Path, default=PATH)
    args = parser.parse_args()
    jobs = [(task, setting, seed) for seed in args.seeds for setting in settings()]
    sweep(run, jobs, args.out, summary=summary)


if __name__ == "__main__":
    main()
