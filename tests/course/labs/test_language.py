"""The language lab: what acts when, its null model, its text, and the script of a run."""

import xml.etree.ElementTree as ElementTree
from functools import partial
from typing import Any

import pytest
import torch
from course.labs.few_digits import TEXT, per_record, picture_of
from course.labs.few_digits import small_language as small

from fltoolkit import Channel, Party, evaluate
from fltoolkit.codecs import ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.data import partition_iid
from fltoolkit.federated import Local
from fltoolkit_course.labs import LanguageLab
from fltoolkit_course.labs.layout import lay_out
from fltoolkit_course.labs.picture import Picture
from fltoolkit_course.labs.train_language import LanguageTraining
from fltoolkit_research.codecs import ContextEntropy, LloydMax
from fltoolkit_research.federated import AllGather, diloco
from fltoolkit_research.models import gpt


def words_in(picture: Picture) -> list[str]:
    root = ElementTree.fromstring(lay_out(picture).svg())
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


# ------------------------------------------------------------------ what is trained


@pytest.mark.slow
def test_it_is_diloco_beside_the_first_worker_alone_who_sends_nothing() -> None:
    lab = small(seed=3)
    run = lab.run()
    x, y = TEXT.windows(8)
    parts = partition_iid(torch.zeros(len(x), dtype=torch.int64), 2, seed=3)
    workers = {f"worker_{k}": (x[part], y[part]) for k, part in enumerate(parts)}
    only = {"worker_0": workers["worker_0"]}
    model, alone = (gpt(len(TEXT.alphabet), context=8, width=8, seed=3) for _ in range(2))
    channel, silent = Channel(), Channel()
    inner = partial(torch.optim.AdamW, lr=1e-2)
    local = Local(8, optimizer=inner, steps=2, clip_norm=1.0, keep_state=True)
    same: Any = {"rounds": 6, "local": local, "seed": 3}
    records = list(diloco(model, workers, channel, **same))
    list(diloco(alone, only, silent, exchange=AllGather(), **same))
    keys = records[0].keys()
    assert [{key: record[key] for key in keys} for record in run.history] == records
    assert run.training.channel.transfers == channel.transfers
    assert silent.nbytes() == 0
    x_test, y_test = (part[:200] for part in TEXT.windows(8, "test"))
    judges = [Party("judge", module, loss_fn=torch.nn.NLLLoss()) for module in (model, alone)]
    losses = [evaluate([judge], x_test, y_test)["test_loss"] for judge in judges]
    assert [run.history[-1]["test_loss"], run.history[-1]["alone"]] == losses
    assert losses[0] != losses[1]


@pytest.mark.later
def test_it_is_tested_every_ten_steps_or_more_and_at_the_end() -> None:
    lab = small(23, inner_steps=5)
    run = lab.run()
    tested = [record["step"] for record in run.history if "test_loss" in record]
    assert run.history.column("step") == [5, 10, 15, 20, 23]
    assert tested == [10, 20, 23]


# ------------------------------------------------------------------ what acts when


@pytest.mark.slow
def test_bits_and_top_k_act_on_the_next_round() -> None:
    lab = small(20)
    lab.run(2)
    for key, value in (("bits", 8), ("bits", 2), ("top_k", 0.1)):
        lab.set(key, value)
        lab.run(2)
    costs = per_record(lab, "nbytes")[1::2]
    full, eight, two, sparse = costs
    assert full > 2.5 * eight, costs
    assert eight > 1.5 * two, costs
    assert two > 1.5 * sparse, costs


@pytest.mark.slow
def test_the_number_of_inner_steps_acts_on_the_next_round_and_the_run_keeps_its_length() -> None:
    lab, still = small(20), small(20)
    lab.run(2)
    lab.set("inner_steps", 10)
    run, unmoved = lab.run(), still.run()
    assert run.history.column("step") == [2, 4, 14, 20], "steps of all rounds; the last is cut"
    assert run.history.column("round") == [0, 1, 2, 3]
    assert run.history[:2] == unmoved.history[:2]
    assert len(set(per_record(lab, "nbytes"))) == 1, "a longer round costs the same bytes"
    assert run.history[-1]["nbytes"] == unmoved.history[-1]["nbytes"] * 4 / 10
    assert picture_of(lab).progress == 1


@pytest.mark.slow
def test_outer_momentum_moves_the_model_further() -> None:
    lab, still = small(24), small(24)
    lab.run(4)
    lab.set("momentum", 0.9)
    run, unmoved = lab.run(), still.run()
    assert run.history[:4] == unmoved.history[:4]
    assert run.history[4]["loss"] == unmoved.history[4]["loss"], "taken before the outer step"
    assert run.history[5]["loss"] != unmoved.history[5]["loss"]
    assert per_record(lab, "nbytes") == per_record(still, "nbytes"), "and costs no byte"


@pytest.mark.later
def test_a_momentum_of_zero_forgets_the_velocity() -> None:
    lab = small(12, momentum=0.9)
    outer = lab.run(3).training.outer.state
    assert any(state["momentum_buffer"] is not None for state in outer.values())
    lab.set("momentum", 0.0)
    lab.run(1)  # older versions of torch then keep None
    assert not any(state["momentum_buffer"] is not None for state in outer.values())


def test_codecs() -> None:
    assert LanguageTraining(TEXT, prompt="to ").codec() == Identity()
    for bits, top_k, stages in (
        (2, 1, [LloydMax(2), ContextEntropy()]),
        (32, 0.1, [TopK(0.1), ContextEntropy()]),
        (4, 0.1, [TopK(0.1), LloydMax(4), ContextEntropy()]),
        (8, 1, [Quantize(8), ContextEntropy()]),
    ):
        codec = LanguageTraining(TEXT, prompt="to ", bits=bits, top_k=top_k).codec()
        assert isinstance(codec, ErrorFeedback)
        assert codec.codec == Pipeline(*stages)


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_steps": 0}, "num_steps=0: must be at least 1"),
        ({"num_workers": 0}, "num_workers=0"),
        ({"levels": {"5-gram": float("nan")}}, "levels=.*5-gram.*finite"),
        ({"prompt": "!"}, "'!' is not among the"),
        ({"prompt": ""}, "prompt='': 1 to 53 characters"),
    ],
    ids=str,
)
def test_mistakes_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LanguageLab(TEXT, **{"prompt": "to ", **wrong})


# ------------------------------------------------------------------ the picture


@pytest.mark.slow
def test_the_picture_has_loss_null_model_levels_marks_and_text() -> None:
    lab = small(20, inner_steps=5, levels={"5-gram": 0.5})
    lab.run()
    lab.set("seed", 1)
    lab.run(2)
    lab.set("bits", 2)
    run = lab.run()
    picture = picture_of(lab)
    over_bytes, over_steps = picture.axes
    assert [line.bold for line in over_bytes.lines] == [False, True]
    tested = run.history.having("test_loss")
    assert over_steps.behind == list(
        zip(tested.column("step"), tested.column("alone"), strict=True)
    )
    assert over_steps.marks == [(10, "messages 2 bits")]
    assert over_bytes.marks == [(run.history[1]["nbytes"], "messages 2 bits")]
    (low_x, high_x), (low, high) = over_bytes.limits()
    assert 0 < low_x < over_bytes.lines[0].points[0][0]
    assert high_x >= run.history[-1]["nbytes"]
    assert 0 < low <= 0.5, "the axis begins below the level, and not at 0"
    assert high >= max(y for _, y in over_bytes.lines[0].points)
    ledger = {name: nbytes for name, nbytes, _ in picture.ledger}
    assert sum(ledger.values()) == run.history[-1]["nbytes"]
    words = words_in(picture)
    assert {"5-gram", "run 1", "run 2", "messages 2 bits"} <= set(words)
    assert any(word.startswith("test loss [nats per character]") for word in words)
    latest = str(tested[-1]["text"])
    assert words.count(latest.replace("\n", "↵").replace(" ", "\xa0")) == 1
    assert repr(latest) in picture.summary()
    assert f"test loss {tested[-1]['test_loss']:.3g} for" in picture.summary()


def shown(num_texts: int) -> Picture:
    """The picture of a run that has written a text after every tenth step, without training."""
    lab = small(1000)
    run = lab._going()
    for k in range(1, num_texts + 1):
        text = f"text {k}\n"
        run.history.append({"step": 10 * k, "nbytes": 1000 * k, "test_loss": 2.0, "text": text})
    return picture_of(lab)


def test_of_the_texts_the_first_the_doublings_and_the_latest_are_shown() -> None:
    def steps(num_texts: int) -> list[int]:
        return [sample.step for sample in shown(num_texts).samples or ()]

    assert [steps(n) for n in (0, 1, 2, 3)] == [[], [10], [10, 20], [10, 20, 30]]
    assert steps(11) == [10, 20, 40, 80, 110]
    assert steps(40) == [10, 40, 80, 160, 320, 400], "six at most: the first and the latest"
    words = words_in(shown(11))
    place = words.index("2.0 kB")
    assert words[place : place + 4] == ["2.0 kB", "text\xa02↵", "4.0 kB", "text\xa04↵"]
