"""Stored models: what is read is what was stored, and what they write can be read."""

from fltoolkit_course.stored import stored_model


def test_a_worker_alone_sent_nothing_and_learned_less() -> None:
    alone, together = stored_model("Muon, alone"), stored_model("Muon, every step, float32")
    assert alone.nbytes == alone.times_text == 0
    assert together.nats < alone.nats - 0.2
    assert together.times_text > 100
