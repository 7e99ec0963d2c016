"""Stored models: what is read is what was stored, and what they write can be read."""

import re

import pytest

from fltoolkit_course.stored import stored_model, stored_models
from fltoolkit_research.data import load_text


def test_a_worker_alone_sent_nothing_and_learned_less() -> None:
    alone, together = stored_model("Muon, alone"), stored_model("Muon, every step, float32")
    assert alone.nbytes == alone.times_text == 0
    assert together.nats < alone.nats - 0.2
    assert together.times_text > 100


@pytest.mark.later
def test_few_messages_of_two_bits_lose_little_and_their_words_can_be_read() -> None:
    known = set(words(load_text("topics").decode(load_text("topics").train)))
    share = {}
    for name in stored_models():
        found = words(stored_model(name).write("If the ", 150, temperature=0.6))
        share[name] = sum(word in known for word in found) / len(found)
    float32, two_bits = (
        stored_model(n) for n in ("Muon, every step, float32", "Muon, H = 10, 2 bits")
    )
    assert two_bits.nbytes < float32.nbytes / 150
    assert two_bits.nats < float32.nats + 0.05
    assert min(share[m.name] for m in (float32, two_bits)) > 0.8 > share["Muon, alone"]


def words(text: str) -> list[str]:
    return re.findall("[a-z]+", text.lower())
