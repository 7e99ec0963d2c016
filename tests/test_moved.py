"""Names that moved, and words of other systems: an error names the place, or what is there."""

import re
import subprocess
import sys
from importlib import import_module

import pytest
import torch
from torch import nn

from fltoolkit import Channel, Local, fedavg
from tools import house


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fltoolkit.course", "fltoolkit_course"),
        ("fltoolkit.labs", "fltoolkit_course.labs"),
        ("fltoolkit.research", "fltoolkit_research"),
        ("fltoolkit.leakage", "fltoolkit_research.leakage"),
        ("fltoolkit.finetuning", "fltoolkit_research.finetuning"),
        ("fltoolkit.engines", "fltoolkit_engines"),
        ("fltoolkit.assignments", "fltoolkit_grading"),
        ("fltoolkit.fence", "fltoolkit_grading.fence"),
        ("fltoolkit.cup", "fltoolkit_contest"),
        ("fltoolkit.codecs.difference", "fltoolkit_research.codecs.difference"),
        ("fltoolkit.plots.live", "fltoolkit_course.plots.live"),
    ],
)
def test_an_old_import_names_the_new_place(old, new):
    for line in (f"import {old}", f"from {old} import name"):
        with pytest.raises(ModuleNotFoundError, match=f"^{old} is {new} now"):
            exec(line)
    package, _, name = old.rpartition(".")
    with pytest.raises(ModuleNotFoundError, match=f"^{old} is {new} now"):
        exec(f"from {package} import {name}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from fltoolkit.codecs import RandTopK", "from fltoolkit_research.codecs import RandTopK"),
        ("from fltoolkit import interval_averaging", "from fltoolkit.federated import interval_"),
        (
            "from fltoolkit import SLModel",
            "coming_from.md has the words of PyTorch, TFF, SecretFlow",
        ),
        (
            "from fltoolkit.federated import EncodedSumFactory",
            r"no fltoolkit\.federated\.Enc.*coming_",
        ),
        ("import fltoolkit.frameworks.torch", r"no fltoolkit\.frameworks\. .*coming_from"),
    ],
)
def test_a_name_that_is_not_here_is_answered_with_where_it_is(line, words):
    with pytest.raises(ModuleNotFoundError, match=words):
        exec(line)


def test_what_is_nowhere_is_no_attribute_and_no_other_package_is_asked():
    assert not hasattr(import_module("fltoolkit"), "nowhere")
    assert not hasattr(import_module("fltoolkit"), "labs")  # it stands in another package
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nowhere'"):
        import_module("nowhere.leakage")
    with pytest.raises(ImportError, match="cannot import name '_private'"):
        exec("from fltoolkit import _private")


TRIES = [  # as somebody who knows another system would write, and what the answer says
    (
        "LossGate(0.1, split_steps=5)",
        "LossGate: .* It takes threshold, every, schedule. docs/coming",
    ),
    ("Server(replicas_to_aggregate=2)", "It takes mean, optimizer, arrivals"),
    ("Local(10, lr=0.1, interval_steps=9)", "It takes batch_size, lr, optimizer, epochs, steps"),
    ("Channel(compress=8)", "It takes codecs"),
    ("Party(replicas=3)", "Party: .* It takes name, module"),
    ("Arrivals(replicas=3)", "Arrivals: .* It takes wait_for"),
    (
        "interval_averaging(net, interval_steps=9)",
        "It takes model, replicas, channel, num_averages",
    ),
    ("fedavg(net, data, None, **how)", r"^channel=None: give Channel\(\), or one with codecs"),
    ("fedavg(lambda: net, data, Channel(), **how)", "model is a function: give a made one"),
    ("fedavg(net, [*data], Channel(), **how)", "clients is a list: give a dict of names"),
    ("train_split([net, net], [], Channel())", r"a Linear is no party: say Party\(name, module"),
    ("train_vertical([ann], net, [], Channel())", "a Linear is no party"),
    ("train_async([ann], ann, rows, Channel(), gate=LossGate(1), num_epochs=1)", "a list is no pa"),
]
SET_UP = """
from fltoolkit import *
from fltoolkit.federated import Arrivals, interval_averaging
import torch
net, x, y = torch.nn.Linear(2, 2), torch.ones(2, 2), torch.zeros(2).long()
ann, data, rows = Party("ann", net), {"ann": (x, y)}, Batches(x, y, 2, seed=0)
how = {"rounds": 1, "cohort": 1, "local": Local(2, lr=0.1, epochs=1)}
"""


@pytest.mark.slow  # in a process without the tests' checks of types
def test_words_of_other_systems_are_answered_with_what_is_there():
    lines = [SET_UP]
    for line, _ in TRIES:
        lines.append(f"try:\n    {line}\nexcept TypeError as error:\n    print(error)\n")
    python = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(python, cwd=house.ROOT, capture_output=True, text=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(TRIES), done.stdout + done.stderr
    for (line, words), answer in zip(TRIES, answers, strict=True):
        assert re.search(words, answer), f"{line}: {answer}"


def test_a_schedule_free_optimizer_is_refused():
    """Nobody would call its ``train()`` and ``eval()``, so other weights would be sent."""

    class ScheduleFree(torch.optim.SGD):
        def eval(self): ...

    data = {"ann": (torch.ones(2, 2), torch.zeros(2).long())}
    local = Local(2, optimizer=ScheduleFree, epochs=1, loss_fn=nn.CrossEntropyLoss())
    rounds = fedavg(nn.Linear(2, 2), data, Channel(), rounds=1, cohort=1, local=local)
    with pytest.raises(TypeError, match=r"ScheduleFree .* train\(\) and eval\(\)"):
        next(rounds)
