"""One training run of a setting."""

import time
from functools import lru_cache

from torch import nn

from experiments.fedavg_results.settings import BATCH_SIZE, COHORT, LAST, Setting, Task
from experiments.runs import Result
from fltoolkit import Channel, Party, evaluate, fedavg, load
from fltoolkit.data import Samples, partition_iid
from fltoolkit.federated import Local
from fltoolkit.models import mcmahan_2nn, mcmahan_cnn, splitnn_mlp
from fltoolkit_research.data import partition_shards


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Train once; ``curve`` holds [bytes up, bytes down, accuracy] after each round."""
    start, data = time.perf_counter(), dataset(task.data, setting.model)
    divide = {"iid": partition_iid, "shards": partition_shards}[setting.split]
    rows = divide(data.y_train, task.clients, seed=seed)
    clients = {f"client_{k}": (data.x_train[r], data.y_train[r]) for k, r in enumerate(rows)}
    model = network(task.data, setting.model, seed)
    server, channel = Party("server", model, loss_fn=nn.NLLLoss()), Channel(setting.codecs)
    curve: list[tuple[int, int, float]] = []
    chosen = setting.all_settings(task)
    for record in fedavg(
        model,
        clients,
        channel,
        rounds=chosen["rounds"],
        cohort=round(COHORT * task.clients),
        local=Local(batch_size=BATCH_SIZE, lr=setting.lr, epochs=setting.local_epochs),
        seed=seed,
    ):
        score = float(evaluate([server], data.x_test, data.y_test)["accuracy"])
        curve.append((int(record["nbytes_up"]), int(record["nbytes_down"]), round(score, 4)))
    up, down, _ = curve[-1]
    last = [accuracy for _, _, accuracy in curve[-LAST:]]
    return {
        **{"key": setting.key(task, seed), "seed": seed, **chosen},
        "accuracy": round(sum(last) / len(last), 6),
        **{"nbytes": up + down, "nbytes_up": up, "nbytes_down": down},
        "num_parameters": sum(p.numel() for p in model.parameters()),
        **{"seconds": round(time.perf_counter() - start, 1), "curve": curve},
    }


@lru_cache(maxsize=1)
def dataset(name: str, model: str) -> Samples:
    """The data as a setting wants them."""
    data = load(name)
    return data if model == "cnn" and name != "digits" else data.flat()


def network(data: str, model: str, seed: int) -> nn.Sequential:
    """The paper's networks; for digits, which are smaller, another MLP."""
    if data == "digits":
        return splitnn_mlp(64, seed=seed)
    return {"2nn": mcmahan_2nn, "cnn": mcmahan_cnn}[model](seed=seed)
