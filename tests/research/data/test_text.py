"""Text: every character is numbered, predicted once, and belongs to whoever says it."""

import hashlib
from pathlib import Path

import pytest
import torch

from fltoolkit_research.data import Text, load_text, partition_contiguous, speeches

PLAY = "Ann:\nWho is there?\n\nBob:\nI am.\nIt is Bob.\n\nAnn:\nCome in!\n\nand sit."


def test_what_is_encoded_is_decoded():
    text = Text.of(PLAY * 3, "play")
    assert text.decode(torch.cat([text.train, text.test])) == PLAY * 3
    assert text.alphabet == "".join(sorted(set(PLAY)))
    assert len(text.test) == round(0.1 * len(PLAY * 3))


def test_a_window_predicts_each_next_character_once():
    text = Text.of(PLAY, "play")
    x, y = text.windows(7)
    flat = text.train[: x.numel() + 1]
    assert torch.equal(x.flatten(), flat[:-1])
    assert torch.equal(y.flatten(), flat[1:])
    assert len(text.train) - x.numel() - 1 < 7  # no whole window is lost
    assert text.windows(5, "test")[0].shape == (1, 5)


def test_speakers():
    said = speeches(PLAY)
    assert said == {"Ann": "Who is there?\n\nCome in!\n\nand sit.", "Bob": "I am.\nIt is Bob."}
    roles = Text.of(PLAY, "play", held_out=0.03).roles(20)
    assert [*roles] == ["Ann"]
    x, y = roles["Ann"]
    assert torch.equal(x[:, 1:], y[:, :-1])


def test_complaints():
    text = Text.of(PLAY, "play")
    for call, words in [
        (lambda: text.encode("Zoe"), "'Z' is not among the"),
        (lambda: text.windows(0), "context=0: play, train has"),
        (lambda: text.windows(1000), "context=1000"),
        (lambda: text.windows(4, "valid"), "choose 'train' or 'test'"),
        (lambda: text.roles(100), "names no speaker"),
        (lambda: Text.of("abc", "tiny"), "3 characters"),
        (lambda: load_text("hamlet"), 'choose "topics" or "shakespeare"'),
        (lambda: partition_contiguous(3, 4), "num_clients=4: must be 1 to 3"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()


def test_the_embedded_text_needs_no_file(monkeypatch):
    monkeypatch.delenv("FLTOOLKIT_DATA", raising=False)
    text = load_text("topics")
    whole = text.decode(torch.cat([text.train, text.test]))
    assert text.sha256 == hashlib.sha256(whole.encode()).hexdigest()
    assert len(whole) > 300_000


def test_another_text_is_not_served_as_shakespeare(tmp_path, monkeypatch):
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text(PLAY)
    monkeypatch.setenv("FLTOOLKIT_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="is another text"):
        load_text("shakespeare")


@pytest.mark.later
def test_shakespeare():
    shared = Path(__file__).parents[4] / "shared" / "data" / "tinyshakespeare" / "input.txt"
    try:
        text = load_text("shakespeare")
    except FileNotFoundError:
        pytest.skip(
            f"needs the file: set FLTOOLKIT_DATA to the folder that holds {shared.parts[-2:]}"
        )
    assert len(text.train) + len(text.test) == 1_115_394
    assert len(text.alphabet) == 65
    assert "MENENIUS" in text.roles(64)


def test_neighbours_stay_together():
    parts = partition_contiguous(10, 3)
    assert torch.equal(torch.cat(parts), torch.arange(10))
    assert [len(part) for part in parts] == [4, 3, 3]
