"""Pictures as one message, copies of a network that step together, and short runs of both kinds."""

from io import BytesIO

import numpy as np
import pytest
import torch

from experiments.send_data import law
from experiments.send_data.pictures import Form, Pictures, message, pixels, shares, smaller
from experiments.send_data.run import _sent, _together
from experiments.send_data.settings import Sent, Together
from experiments.send_data.training import Pixels

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
    start = sent.index(b"\xff\xda") + 14
    end = b"\xff\xd9"  # never written inside a file; and labels are below 10
    *scans, packed = sent[start:].split(end)
    assert [sent[:start] + scan + end for scan in scans] == files
    assert [part for byte in packed for part in (byte >> 4, byte & 15)][:number] == labels
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


def test_a_pass_shows_each_sample_once():
    x = torch.arange(20, dtype=torch.uint8)[:, None, None, None].expand(20, 3, 32, 32)
    seen = [y for _, y in Pixels(x, torch.arange(20), CPU).batches(torch.arange(20), 5, 1, 0)]
    assert torch.cat(seen).sort().values.tolist() == list(range(20))


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
    found = _together(owners, 0, held, test, CPU)
    assert found["rounds"] == 8
    assert found["accuracy"] > 0.2
    assert [nbytes for nbytes, _ in found["curve"]] == sorted(n for n, _ in found["curve"])
    assert found["nbytes"] == found["curve"][-1][0]
    assert found["nbytes_up"] < found["nbytes"]
    assert _together(owners, 0, held, test, CPU) == found
    sent = _sent(Sent(Form(), 200, samples_seen=1000, **few), 0, held, test, CPU)
    assert sent["accuracy"] > 0.2
    assert sent["nbytes"] == 623 + 200 * 300 + 100


def test_the_law_predicts_the_side_of_each_stored_run():
    """Of at least eight runs, on both sides."""
    rows = law.table().splitlines()[2:]
    times = [float(row.split("|")[8].replace(",", "")) for row in rows]
    assert len(rows) >= 8
    assert all(row.endswith("| yes |") for row in rows)
    assert min(times) < 1 < max(times)
