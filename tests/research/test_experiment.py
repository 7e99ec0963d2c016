"""Experiments as values and as texts, and that running one is running its protocol."""

import json

import pytest
import torch

from fltoolkit import SGD, Batches, Channel, Party, Pipeline, evaluate, load, splitnn_mlp
from fltoolkit.codecs import (
    DGC,
    Difference,
    Entropy,
    ErrorFeedback,
    Float8,
    Only,
    Parts,
    Quantize,
    Stage,
    TopK,
)
from fltoolkit.data import partition_dirichlet, partition_shards
from fltoolkit.research import (
    Experiment,
    allow,
    build,
    num_steps,
    read,
    records,
    run,
)
from fltoolkit.research.task import dealt_out
from fltoolkit.split import BangBang, BudgetGate, Decay, LossGate, train_split

SMALL = {"num_samples": 200, "rounds": 1}
TWO_WAYS = {
    "activations": Pipeline(Quantize(3), Entropy()),
    "gradients": Pipeline(TopK(0.1), Quantize(4), Entropy()),
}


# ------------------------------------------------------------------------------------------ texts


@pytest.mark.parametrize(
    "thing",
    [
        Pipeline(Quantize(4, stochastic=True, per=256), Entropy()),
        ErrorFeedback(Only(Pipeline(TopK(0.01), Float8()), min_size=7)),
        Pipeline(DGC(0.01, warmup=(0.25, 0.0625))),
        Difference(Pipeline(Quantize(4), Entropy())),
        LossGate(0.1, every=3, schedule=Decay(0.9)),
        BudgetGate(10**6, 100, pace=0.5),
        BangBang(10**6, 100, every=25),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_repr_writes_is_read_back(thing):
    assert repr(build(repr(thing))) == repr(thing)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Quantize.__init__(8)",
        "Pipeline(*[Quantize(8)])",
        "Quantize(**{'bits': 8})",
        "[x for x in (1, 2)]",
        "Quantize(bits=1 + 1)",
        "open('/etc/passwd')",
        "Quantize(8), exit()",
        "f'{Quantize(8)}'",
        "(" * 500 + ")" * 500,
        "Pipeline(",
        "TopK(99)",
        "b'bytes'",
    ],
)
def test_nothing_else_is_read(text):
    with pytest.raises(ValueError, match=r".+"):
        build(text)
    with pytest.raises(ValueError, match=r".+"):
        Experiment("fedavg", codecs={"update": text})


def test_a_long_text_is_not_parsed():
    with pytest.raises(ValueError, match="at most 10,000"):
        build("Pipeline(" + "Quantize(8)," * 1000 + ")")


class Halve(Stage):
    """A stage of a researcher's own."""

    def apply(self, parts: Parts) -> Parts:
        return parts

    undo = apply

    def __repr__(self) -> str:
        return "Halve()"


def test_a_stage_of_ones_own():
    with pytest.raises(ValueError, match=r"allow\(YourClass\)"):
        Experiment("fedavg", codecs={"update": Pipeline(Halve())})
    allow(Halve)
    experiment = Experiment("fedavg", codecs={"update": Pipeline(Halve())}, **SMALL)
    assert experiment.codecs == {"update": "Pipeline(Halve())"}
    assert len(run(experiment)) == 1
    with pytest.raises(ValueError, match="another class"):
        allow(type("TopK", (), {}))


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
    codecs={"activations": Pipeline(Quantize(2), Entropy())},
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
    scope: dict = {}
    exec(EVERYTHING.to_code().replace("print(run(experiment)[-1])", ""), scope)
    assert scope["experiment"] == EVERYTHING


def test_the_key_is_the_content():
    assert Experiment(lr=1).key == Experiment(lr=1.0, name="called something").key
    texts = ("Pipeline(Quantize(8))", "Pipeline( Quantize(bits = 8) )", Pipeline(Quantize(8)))
    assert len({Experiment(codecs={"activations": text}).key for text in texts}) == 1
    changes = [
        *({"seed": 1}, {"lr": 0.1}, {"rounds": 6}, {"batch_size": 8}, {"validation": 0.1}),
        *({"data": "mnist"}, {"cut": 2}, {"num_samples": 5}, {"evaluations": 2}),
        {"codecs": {"gradients": "Pipeline(Float8())"}},
        {"codecs": {"activations": "Pipeline(Float8())"}},
    ]
    keys = {Experiment(**change).key for change in changes} | {Experiment().key}
    assert len(keys) == len(changes) + 1
    assert Experiment().key == "f2179af352cf9394"  # stores would no longer find what they hold


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"protocol": "splitt"}, "choose one of split, relay"),
        ({"protocol": "split", "num_clients": 3}, "'relay'"),
        ({"protocol": "split_async"}, "needs a gate"),
        ({"gate": "LossGate(0.1)"}, "the others have none"),
        ({"settings": {"version": 2}}, "split knows through"),
        ({"partition": "shards"}, r"shards\(2\)"),
        ({"lr": "1e-3"}, "In YAML write 0.001"),
        ({"lr": float("nan")}, "lr is above 0"),
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
    assert [(e.protocol, e.seed, e.rounds, e.lr) for e in found] == [
        *(("split", 0, 2, 0.1), ("split", 1, 2, 0.1), ("fedavg", 0, 2, 0.1))
    ]
    (tmp_path / "one.json").write_text(found[2].to_json())
    assert read(tmp_path / "one.json") == [found[2]]
    path.write_text("- {protocol: split, learning_rate: 3}")
    with pytest.raises(ValueError, match=r"experiment 1: 'learning_rate' is no setting; known"):
        read(path)
    for text, words in (
        ("defaults: {rounds: 2}", "holds no experiment"),
        ("experiments:", "holds no experiment"),
        ("", "holds no experiment"),
        ("- {seeds: 3}", r"experiment 1: seeds=3: a list"),
        ("- {seeds: []}", r"experiment 1: seeds=\[\]: a list"),
        ("{defaults: 3, experiments: [{}]}", "defaults is '3'"),
        ("experiments: [split]", "experiment 1 is 'split'"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"sweep\.yaml.* {words}"):
            read(path)
    path.write_text("a: [")
    with pytest.raises(ValueError, match=r"sweep\.yaml"):
        read(path)
    path.write_text("hello")
    with pytest.raises(ValueError, match="settings by name"):
        read(path)


# ---------------------------------------------------------------------------------------- running


@pytest.mark.slow
def test_split_is_train_split():
    experiment = Experiment(rounds=2, seed=1, codecs=TWO_WAYS)
    history = run(experiment)
    data = load("digits").flat()
    model = splitnn_mlp(64, 10, seed=1)
    alice = Party("client_0", model[:4], SGD(model[:4].parameters(), lr=0.05))
    bob = Party("server", model[4:], SGD(model[4:].parameters(), lr=0.05), torch.nn.NLLLoss())
    channel = Channel(TWO_WAYS)
    batches = Batches(data.x_train, data.y_train, 32, seed=1)
    losses = [r["loss"] for r in train_split([alice, bob], batches.epochs(2), channel)]
    score = evaluate([alice, bob], data.x_test, data.y_test)
    last = history[-1]
    assert (last["accuracy"], last["test_loss"]) == (score["accuracy"], score["test_loss"])
    assert last["nbytes"] == channel.nbytes()
    assert last["loss"] == pytest.approx(sum(losses[len(losses) // 2 :]) / (len(losses) // 2))
    assert last["nbytes_gradients_down"] == channel.nbytes(kind="gradients")
    assert last["num_waits"] == len(channel.transfers)
    assert history.column("round") == [1, 2]
    assert num_steps(experiment) == last["step"] == len(losses)


KINDS = {
    "relay": {"activations_up", "gradients_down", "labels_up", "model_across"},
    "splitfed": {"activations_up", "gradients_down", "labels_up", "model_up", "model_down"},
    "split_async": {
        *("activations_up", "gradients_down", "labels_up", "model_across", "control_down")
    },
    "fedavg": {"model_down", "update_up"},
}


@pytest.mark.parametrize("protocol", KINDS)
def test_bytes_add_up_and_the_same_seed_gives_the_same(protocol):
    gate = "Periodic(3, every=2)" if protocol == "split_async" else ""
    experiment = Experiment(protocol, num_clients=3, gate=gate, **SMALL | {"rounds": 2})
    history = run(experiment)
    assert history == run(experiment)
    assert history != run(Experiment.from_dict({**experiment.to_dict(), "seed": 1}))
    assert history.column("round") == [1, 2]
    last = history[-1]
    kinds = {key[7:] for key in last if key.startswith("nbytes_")} - {"up", "down"}
    assert kinds == KINDS[protocol]
    assert sum(int(last[f"nbytes_{kind}"]) for kind in kinds) == last["nbytes"]
    if gate:
        assert last["steps_a"] + last["steps_b"] + last["steps_c"] == last["step"]
        assert last["steps_c"] > 0
    assert last["client_flops"] > 0


def test_evaluations_within_a_round():
    history = run(Experiment("relay", num_clients=2, evaluations=3, **SMALL))
    assert [round(float(r), 2) for r in history.column("round")] == [0.38, 0.75, 1]


def test_partitions_and_held_out_samples():
    data = load("digits").flat()
    for text, direct in (
        ("shards(1)", partition_shards(data.y_train, 5, shards_per_client=1, seed=2)),
        ("dirichlet(0.2)", partition_dirichlet(data.y_train, 5, alpha=0.2, seed=2)),
    ):
        experiment = Experiment("relay", num_clients=5, partition=text, seed=2)
        for mine, rows in zip(dealt_out(data.y_train, experiment), direct, strict=True):
            assert torch.equal(mine, rows)
    held = Experiment("split", validation=0.25, **SMALL)
    assert num_steps(held) == -(-150 // 32)
    assert num_steps(Experiment("split", **SMALL)) == -(-200 // 32)
    assert run(held) != run(Experiment("split", **SMALL))
    with pytest.raises(ValueError, match="digits has 1,437"):
        run(Experiment(num_samples=2000))


def test_through_is_how_it_is_tested():
    one = Experiment("split", **SMALL)
    other = Experiment("split", settings={"through": "Pipeline(TopK(0.01))"}, **SMALL)
    assert run(one)[-1]["accuracy"] != run(other)[-1]["accuracy"]
    assert run(one)[-1]["nbytes"] == run(other)[-1]["nbytes"]


def test_a_model_that_travels_as_differences():
    codecs = {"model": Difference(Pipeline(Quantize(4), Entropy()))}
    sent = [
        run(Experiment("fedavg", codecs=c, lr=0.1, num_samples=64, rounds=3))[-1]
        for c in (codecs, {"model": codecs["model"].codec})
    ]
    assert sent[0]["nbytes_model_down"] < sent[1]["nbytes_model_down"]
    assert sent[0]["entropy_model_down"] < sent[1]["entropy_model_down"]


def test_records_are_json_and_can_be_stopped():
    found = records(Experiment("split", rounds=1000))
    first = next(found)
    found.close()
    assert json.loads(json.dumps(first)) == first
