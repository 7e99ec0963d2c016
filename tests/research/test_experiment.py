"""An experiment as a value: checked, written down, read back."""

import pytest

from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit.split import LossGate
from fltoolkit_research import PROTOCOLS, Experiment, read
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
    for text, back in (
        (EVERYTHING.to_json(), Experiment.from_json),
        (EVERYTHING.to_yaml(), Experiment.from_yaml),
    ):
        again = back(text)
        assert again == EVERYTHING
        assert again.name == "everything"
        assert again.key == EVERYTHING.key
    code = EVERYTHING.to_code()
    assert "        'activations': " in code  # a setting a line
    scope: dict = {}
    exec(EVERYTHING.to_code().replace("print(run(experiment)[-1])", ""), scope)
    assert scope["experiment"] == EVERYTHING


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
        ({"protocol": "splitt"}, "choose one of split, relay"),
        ({"protocol": "split", "num_clients": 3}, "'relay'"),
        ({"protocol": "split_async"}, "need a gate"),
        ({"gate": "LossGate(0.1)"}, "other protocols have none"),
        ({"settings": {"version": 2}}, "the settings of split are through"),
        ({"codecs": {"update": "Pipeline()"}}, r"split sends activations, gradients, and never"),
        (
            {"protocol": "fedavg", "codecs": {"activations": "Pipeline()"}},
            r"fedavg sends model, update, control, and never 'activations'",
        ),
        ({"metric": "acuracy"}, "choose one of accuracy, binary_accuracy"),
        ({"model": "mlpp"}, r"one of mlp, cnn, or the call"),
        ({"data": "open('x')"}, "is not allowed here"),
        ({"loss": "MSELoss"}, r"write MSELoss\(\)"),
        ({"optimizer": "Adam"}, r"write Adam\(\)"),
        ({"optimizer": "Pipeline()"}, r"give an optimizer such as Adam\(lr=0.01\)"),
        ({"optimizer": "Adam(lr=-1.0)"}, "Invalid learning rate: -1.0"),
        ({"optimizer": "Adam(lr=0.1)", "lr": 0.1}, "leave lr out"),
        ({"protocol": "fedavg", "settings": {"clock": "Drop()"}}, "give a clock such as"),
        ({"protocol": "fedavg", "settings": {"privacy": "Drop()"}}, "give noise such as"),
        ({"protocol": "fedavg", "settings": {"wait_for": 2}}, "wait_for at most cohort_size"),
        ({"protocol": "uploading"}, "split_async and uploading need a gate"),
        ({"protocol": "u_shaped", "num_clients": 2}, "'u_shaped' has one client"),
        ({"protocol": "vertical", "partition": "shards(2)"}, "columns of all samples"),
        ({"partition": "shards"}, r"shards\(2\)"),
        ({"lr": "1e-3"}, "In YAML write 0.001"),
        ({"lr": float("nan")}, "lr must be above 0"),
        ({"rounds": 0}, "at least 1"),
        ({"rounds": 2.5}, "a whole number"),
        ({"seed": -1}, "at least 0"),
        ({"protocol": "fedavg", "evaluations": 2}, "tested once"),
        ({"codecs": ["Pipeline()"]}, "give mappings"),
        ({"codecs": {"activations": "LossGate("}}, "was never closed"),
        ({"codecs": {"activations": "LossGate(0.1)"}}, "is no codec"),
        ({"protocol": "split_async", "gate": "Pipeline()"}, "is no gate"),
        ({"codecs": {"activation": "Pipeline()"}}, "activations"),
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
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "defaults: {rounds: 2, lr: 0.1}\n"
        "experiments:\n"
        "- {protocol: split, name: plain, seeds: [0, 1]}\n"
        "- protocol: fedavg\n"
        "  num_clients: 5\n"
        "  codecs: {update: 'Pipeline(Quantize(8))'}\n"
    )
    found = read(path)
    three = [("split", 0, 2, 0.1), ("split", 1, 2, 0.1), ("fedavg", 0, 2, 0.1)]
    assert [(e.protocol, e.seed, e.rounds, e.lr) for e in found] == three
    (tmp_path / "one.json").write_text(found[2].to_json())
    assert read(tmp_path / "one.json") == [found[2]]
    for text, words in (
        (
            "- {protocol: split, learning_rate: 3}",
            "experiment 1: 'learning_rate' is no setting; the settings are",
        ),
        (
            "defaults: {rounds: 2}\ngrid: {lr: [0.1, 0.2]}\nexperiments: [{seed: 1}]\n",
            ".*'grid' is no key of such a file.*Only seeds multiply",
        ),
        ("- {name: a, rounds: 2}\n- {name: b, rounds: 2}", ".*'a' and 'b' are names of the same"),
        ("a: [", ""),
        ("hello", ".*settings by name"),
        ("defaults: {rounds: 2}", "holds no experiment"),
        ("experiments:", "holds no experiment"),
        ("", "holds no experiment"),
        ("- {seeds: 3}", r"experiment 1: seeds=3: write a list"),
        ("- {seeds: []}", r"experiment 1: seeds=\[\]: write a list"),
        ("{defaults: 3, experiments: [{}]}", "defaults is '3'"),
        ("experiments: [split]", "experiment 1 is 'split'"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"sweep\.yaml.* {words}"):
            read(path)


def test_a_metric_or_protocol_may_be_given_itself():
    given = Experiment(PROTOCOLS["relay"], metric=PERPLEXITY)
    assert given == Experiment("relay", metric="perplexity")
    assert (given.method, given.measured) == (PROTOCOLS["relay"], PERPLEXITY)
