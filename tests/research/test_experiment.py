import json
import pickle
import subprocess
import sys
from functools import partial

import pytest
from torch import nn, optim

from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit.federated.clock import LogNormal
from fltoolkit.split import LossGate
from fltoolkit_research import Experiment, protocols, read
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.metrics import PERPLEXITY

EVERYTHING = Experiment(
    "split_async",
    data="digits",
    num_samples=300,
    num_clients=4,
    partition="dirichlet(0.3)",
    rounds=2,
    evaluations=2,
    lr=0.1,
    settings={"delta": True, "through": Pipeline(TopK(0.5))},
    codecs={"activations": Pipeline(Quantize(2), ContextEntropy())},
    gate=LossGate(0.1, every=5),
    seed=7,
    name="everything",
)


def test_round_trips():
    for again in (
        Experiment.from_json(EVERYTHING.to_json()),
        pickle.loads(pickle.dumps(EVERYTHING)),
    ):
        assert again == EVERYTHING
        assert again.name == "everything"
        assert again.key == EVERYTHING.key
        assert again.protocol is protocols.split_async


def test_objects_and_their_texts_are_the_same():
    given = Experiment(
        protocols.fedavg,
        metric=PERPLEXITY,
        loss=partial(nn.CrossEntropyLoss, label_smoothing=0.1),
        optimizer=partial(optim.AdamW, lr=0.001),
        settings={"server_optimizer": partial(optim.Adam, lr=0.01), "clock": LogNormal(1.0)},
    )
    texts = Experiment(
        "fedavg",
        metric="perplexity",
        loss="CrossEntropyLoss(label_smoothing=0.1)",
        optimizer="AdamW( lr = 0.001 )",
        settings={"server_optimizer": "Adam(lr=0.01)", "clock": "LogNormal(sigma=1.0)"},
    )
    assert given == texts
    assert given.to_dict() == texts.to_dict()
    assert (texts.protocol, texts.metric) == (protocols.fedavg, PERPLEXITY)
    assert Experiment(loss=nn.NLLLoss) == Experiment()


@pytest.mark.later
def test_importing_an_experiment_imports_no_protocol():
    code = """if True:
        import sys
        from fltoolkit_research import Experiment, Store, points
        Experiment("relay", num_clients=2)
        print(*(name for name in sys.modules if ".protocols." in name))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fltoolkit_research.protocols.cut"]


def test_the_key_is_the_content():
    assert Experiment(lr=1).key == Experiment(lr=1.0, name="called something").key
    texts = ("Pipeline(Quantize(8))", "Pipeline( Quantize(bits = 8) )", Pipeline(Quantize(8)))
    assert len({Experiment(codecs={"activations": text}).key for text in texts}) == 1
    numbers = {"seed": 1, "lr": 0.1, "rounds": 6, "batch_size": 8, "validation": 0.1, "cut": 2}
    numbers |= {"num_samples": 5, "evaluations": 2}
    names = {"data": "mnist", "optimizer": "Adam(lr=0.1)", "loss": "CrossEntropyLoss()"}
    names |= {"metric": "test_loss"}
    changes = [{name: value} for name, value in (numbers | names).items()]
    changes += [{"codecs": {"gradients": "Pipeline(Float8())"}}]
    changes += [{"codecs": {"activations": "Pipeline(Float8())"}}]
    keys = {Experiment(**change).key for change in changes} | {Experiment().key}
    assert len(keys) == len(changes) + 1
    assert Experiment().key == "f2179af352cf9394"  # stores would no longer find what they hold


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"protocol": "splitt"}, "choose one of alone, fedavg"),
        ({"protocol": "split", "num_clients": 3}, "'relay'"),
        ({"protocol": "split_async"}, "needs a gate"),
        ({"gate": "LossGate(0.1)"}, "other protocols have none"),
        ({"settings": {"version": 2}}, "the settings of split are through"),
        ({"codecs": {"update": "Pipeline()"}}, r"split sends activations, gradients, and never"),
        (
            {"protocol": "fedavg", "codecs": {"activations": "Pipeline()"}},
            r"fedavg sends model, update, control, and never 'activations'",
        ),
        ({"metric": "acuracy"}, "choose one of accuracy, mean_squared_error"),
        ({"model": "mlpp"}, r"one of mlp, cnn, or a function"),
        ({"data": "open('x')"}, "is not allowed here"),
        ({"loss": "MSELoss"}, "is not allowed here"),
        ({"optimizer": "Pipeline()"}, "give an optimizer"),
        ({"optimizer": "Adam(lr=-1.0)"}, "Invalid learning rate: -1.0"),
        ({"optimizer": "Adam(lr=0.1)", "lr": 0.1}, "leave lr out"),
        ({"protocol": "fedavg", "settings": {"clock": "Drop()"}}, "give a clock such as"),
        ({"protocol": "fedavg", "settings": {"privacy": "Drop()"}}, "give noise such as"),
        ({"protocol": "fedavg", "settings": {"wait_for": 2}}, "wait_for at most cohort_size"),
        ({"partition": "shards"}, r"shards\(2\)"),
        ({"lr": "1e-3"}, "a number"),
        ({"lr": float("nan")}, "lr must be above 0"),
        ({"rounds": 0}, "at least 1"),
        ({"rounds": 2.5}, "a whole number"),
        ({"seed": -1}, "at least 0"),
        ({"protocol": "fedavg", "evaluations": 2}, "tested once"),
        ({"codecs": ["Pipeline()"]}, "expected values by name"),
        ({"codecs": {"activations": object()}}, "needs a repr"),
        ({"metric": nn.NLLLoss}, "give a Metric"),
        ({"protocol": len}, r"give a Protocol \(write @as_protocol\(sends=...\) above"),
        ({"codecs": {"activations": "LossGate("}}, "was never closed"),
        ({"codecs": {"activations": "LossGate(0.1)"}}, "needs a codec, such as"),
        ({"protocol": "split_async", "gate": "Pipeline()"}, "is none: give one such as"),
        ({"codecs": {"activations": "Pipeline(TopK('0.1'))"}}, "numbers without quotes"),
        ({"settings": {"through": "LossGate(0.1)"}}, "give a codec such as"),
        ({"protocol": "fedavg", "settings": {"local_epochs": 1.5}}, "a whole number above 0"),
        ({"protocol": "fedavg", "settings": {"cohort_size": True}}, "a whole number above 0"),
        ({"protocol": "fedavg", "settings": {"masked": "no"}}, "give True or False"),
        ({"protocol": "fedavg", "settings": {"prox": float("nan")}}, "a number, 0 or more"),
    ],
)
def test_mistakes_are_explained(wrong, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Experiment(**wrong)


def test_files(tmp_path):
    path = tmp_path / "sweep.json"
    codecs = {"update": "Pipeline(Quantize(8))"}
    experiments = [
        {"protocol": "split", "name": "plain", "seeds": [0, 1]},
        {"protocol": "fedavg", "num_clients": 5, "codecs": codecs},
    ]
    path.write_text(json.dumps({"defaults": {"rounds": 2, "lr": 0.1}, "experiments": experiments}))
    found = read(path)
    three = [("split", 0, 2, 0.1), ("split", 1, 2, 0.1), ("fedavg", 0, 2, 0.1)]
    assert [(e.protocol.name, e.seed, e.rounds, e.lr) for e in found] == three
    (tmp_path / "one.json").write_text(found[2].to_json(indent=2))
    assert read(tmp_path / "one.json") == [found[2]]
    for value, words in (
        ([{"learning_rate": 3}], "experiment 1: 'learning_rate' is no setting; the settings are"),
        (
            {"defaults": {}, "grid": {"lr": [0.1, 0.2]}, "experiments": [{"seed": 1}]},
            ".*'grid' is no key of such a file.*Only seeds multiply",
        ),
        ("hello", ".*values by name"),
        ({"defaults": {"rounds": 2}}, "holds no experiment"),
        ([], "holds no experiment"),
        ([{"seeds": 3}], r"experiment 1: seeds=3: write a list"),
        ([{"seeds": []}], r"experiment 1: seeds=\[\]: write a list"),
        ({"defaults": 3, "experiments": [{}]}, "defaults is '3'"),
        ({"experiments": ["split"]}, "experiment 1 is 'split'"),
    ):
        path.write_text(json.dumps(value))
        with pytest.raises(ValueError, match=rf"sweep\.json.* {words}"):
            read(path)
    for text, words in (("[", "cannot be read as JSON"), ("[" * 10**5, "cannot be read as JSON")):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            read(path)
