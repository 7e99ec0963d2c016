"""Pictures as one message, copies of a network that step together, and short runs of both kinds."""

from io import BytesIO

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from experiments.runs import read
from experiments.send_data import law, membership, report
from experiments.send_data.pictures import (
    Form,
    Pictures,
    message,
    pixels,
    read_message,
    shares,
    smaller,
)
from experiments.send_data.run import _sent, _together
from experiments.send_data.settings import Sent, Together
from experiments.send_data.training import Pixels, Replicas, batches, network

CPU = torch.device("cpu")


def jpegs(number, quality=40):
    """Files of one quality, with different contents."""
    Image = pytest.importorskip("PIL.Image")
    files, draw = [], np.random.default_rng(0)
    for _ in range(number):
        out = BytesIO()
        small = Image.fromarray(draw.integers(0, 255, (8, 8, 3), dtype=np.uint8))
        small.resize((32, 32)).save(out, "JPEG", quality=quality)
        files.append(out.getvalue())
    return files


@pytest.mark.parametrize("number", [1, 6, 7])
def test_what_is_sent_is_what_arrives_and_its_length_is_what_is_counted(number):
    files, labels = jpegs(number), [(3 * k) % 10 for k in range(number)]
    sent = message(files, labels)
    assert read_message(sent) == (files, labels)
    start = sent.index(b"\xff\xda") + 14
    each = torch.tensor([len(file) - start for file in files])
    held = Pictures(*[torch.zeros(1)] * 4, each, start)
    assert held.nbytes(torch.arange(number)) == len(sent) <= sum(map(len, files)) + number


def test_pictures_that_do_not_begin_alike_are_refused():
    with pytest.raises(ValueError, match="of one size and quality"):
        message([*jpegs(1), *jpegs(1, quality=90)], [0, 1])


def test_a_smaller_picture_takes_fewer_bytes_and_comes_back_in_full_size():
    (file,) = jpegs(1, quality=90)
    small = smaller(file, Form(16, 30))
    assert len(small) < len(file)
    assert pixels(small).shape == pixels(file).shape == (3, 32, 32)
    assert np.abs(pixels(small).astype(int) - pixels(file)).mean() > 0


def test_every_owner_has_an_equal_share_and_nobody_has_anothers():
    owned = shares(100, 4, seed=3)
    assert [len(rows) for rows in owned] == [25] * 4
    assert torch.cat(owned).unique().numel() == 100
    assert not torch.equal(owned[0], shares(100, 4, seed=4)[0])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_copies_step_as_torch_does(momentum):
    model = network((4, 4, 4), seed=0)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(3, 2, 8, 3, 32, 32, generator=draw)  # steps, copies, batch
    y = torch.randint(10, (3, 2, 8), generator=draw)
    copies = Replicas(model, 2, 8, CPU, momentum=momentum, decay=1e-3)
    for some, labels in zip(x, y, strict=True):
        copies.step(some, labels, 0.1)
    for k, vector in enumerate(copies.weights()):
        alone = network((4, 4, 4), seed=0)
        sgd = torch.optim.SGD(
            alone.parameters(), lr=0.1, momentum=momentum, nesterov=momentum > 0, weight_decay=1e-3
        )
        for some, labels in zip(x[:, k], y[:, k], strict=True):
            sgd.zero_grad()
            nn.functional.nll_loss(alone(some), labels).backward()
            sgd.step()
        expected = parameters_to_vector(alone.parameters())
        torch.testing.assert_close(vector, expected, atol=1e-6, rtol=1e-5)


def test_a_pass_shows_each_sample_once_to_its_own_copy():
    rows = [torch.arange(20), torch.arange(20, 40)]
    seen = torch.cat([some for some, _, _ in batches(rows, 5, [1, 2], epoch=0)], dim=1)
    assert [sorted(r.tolist()) for r in seen] == [list(range(20)), list(range(20, 40))]


@pytest.fixture
def held():
    """Pictures whose class is their colour: easily learned."""
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(10, (400,), generator=draw)
    colours = torch.randint(0, 255, (10, 3), generator=draw)
    noise = torch.randint(0, 20, (400, 3, 32, 32), generator=draw)
    x = (colours[y][..., None, None] + noise).clamp(0, 255).to(torch.uint8)
    return Pictures(x, y, x[:100], y[:100], torch.full((400,), 300), 623)


@pytest.mark.slow
def test_both_kinds_of_runs_learn_and_count_what_they_send(held):
    test = Pixels(held.x_test, held.y_test, CPU).x[:, :, 2:-2, 2:-2], held.y_test
    few = {"widths": (4, 4, 8), "num_samples": 200, "batch_size": 10}
    owners = Together(4, 1, 8, 0.1, 0.2, **few)
    found = _together(owners, 0, held, test, CPU, deadline=1e12)
    assert found["rounds"] == 8
    assert found["accuracy"] > 0.2
    assert [nbytes for nbytes, _ in found["curve"]] == sorted(n for n, _ in found["curve"])
    assert found["nbytes"] == found["curve"][-1][0]
    assert found["nbytes_up"] < found["nbytes"]
    again = _together(owners, 0, held, test, CPU, deadline=1e12)
    assert again == found
    sent = _sent(Sent(Form(), 200, samples_seen=1000, **few), 0, held, test, CPU)
    assert sent["accuracy"] > 0.2
    assert sent["nbytes"] == 623 + 200 * 300 + 100


@pytest.mark.later
def test_owners_stop_at_the_deadline_and_keep_what_they_have(held):
    owners = Together(4, 1, 50, 0.05, 0.1, widths=(4, 4, 8), num_samples=400, batch_size=20)
    test = Pixels(held.x_test, held.y_test, CPU).x[:, :, 2:-2, 2:-2], held.y_test
    found = _together(owners, 0, held, test, CPU, deadline=0)
    assert found["rounds"] == len(found["curve"]) == 1


def test_networks_of_the_membership_attack_are_those_of_docs_leakage():
    """They were trained again: the same accuracy, but for ten of 10,000 images on one machine."""
    there = {r["key"]: r for r in read(report.RESULTS / "leakage.jsonl").values()}
    again = [*read(membership.PATH).values()]
    assert {r["name"] for r in again} == {*membership.NAMES}
    assert {r["seed"] for r in again} == {0, 1, 2}
    for result in again:
        assert abs(result["accuracy"] - there[result["key"]]["accuracy"]) < 0.0015


def test_the_law_predicts_the_side_of_each_stored_run():
    """Of at least eight runs, on both sides."""
    rows = law.table().splitlines()[2:]
    times = [float(row.split("|")[8].replace(",", "")) for row in rows]
    assert len(rows) >= 8
    assert all(row.endswith("| yes |") for row in rows)
    assert min(times) < 1 < max(times)
