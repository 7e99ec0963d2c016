"""The experiment on federated averaging: small runs on digits, and what its page may say."""

import pytest
from torch import nn

from experiments.fedavg_results.run import run
from experiments.fedavg_results.settings import Setting, Task
from fltoolkit import Channel, Party, evaluate, fedavg, load
from fltoolkit.data import partition_iid
from fltoolkit.federated import Local
from fltoolkit.models import splitnn_mlp

DIGITS = Task("digits", clients=20, rounds=3)
PLAIN = Setting("part", "float32")


@pytest.mark.later
def test_float32_is_plain_fedavg():
    result = run(DIGITS, PLAIN, 1)
    data = load("digits").flat()
    rows = partition_iid(data.y_train, 20, seed=1)
    clients = {f"client_{k}": (data.x_train[r], data.y_train[r]) for k, r in enumerate(rows)}
    model, channel = splitnn_mlp(64, seed=1), Channel()
    how = {"cohort": 2, "local": Local(batch_size=10, lr=0.1, epochs=1), "seed": 1}
    (*_, last) = fedavg(model, clients, channel, rounds=3, **how)
    score = evaluate([Party("server", model, loss_fn=nn.NLLLoss())], data.x_test, data.y_test)
    assert result["curve"][-1] == (
        last["nbytes_up"],
        last["nbytes_down"],
        round(float(score["accuracy"]), 4),
    )
    assert result["nbytes"] == channel.nbytes()
