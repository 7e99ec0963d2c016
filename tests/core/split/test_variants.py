import pytest
import torch
from core.split.digits_runs import batches, parties

from fltoolkit.channel import Channel
from fltoolkit.split import LossGate, train_uploading


def by_hand(losses, threshold, every, max_local_steps):
    """SecretFlow's rule, told once more: per batch, its states after each label-party step."""
    losses, state, reference, total, count = iter(losses), "A", 0.0, 0.0, 0
    while True:
        trace = []
        for _ in range(max_local_steps + 1):
            try:
                total, count = total + next(losses), count + 1
            except StopIteration:
                return
            if count >= every:
                mean, total, count = total / count, 0.0, 0
                if abs(reference - mean) >= threshold:
                    state, reference = "A", mean
                else:
                    state = "B" if state == "A" else "C"
            trace.append(state)
            if state != "C":
                break
        yield trace


@pytest.mark.parametrize(("every", "max_local_steps"), [(1, 1), (1, 3), (3, 10)])
def test_uploading_reproduces_the_state_sequence(every, max_local_steps):
    generator = torch.Generator().manual_seed(every)
    falls = torch.rand(400, generator=generator) * 0.2
    losses = (2.5 - falls.cumsum(0) / 8).tolist()
    alice, bob = parties()
    script, channel = iter(losses), Channel()
    bob.loss_and_grad = lambda h, y: (next(script), torch.zeros_like(h))
    trace = list(by_hand(losses, 0.11, every, max_local_steps))[:30]
    stream = (batch for batch in batches().epochs(10))
    gate = LossGate(0.11, every=every)
    train = train_uploading(alice, bob, stream, channel, gate=gate, max_local_steps=max_local_steps)
    records = [record for record, _ in zip(train, trace, strict=False)]
    assert [r["state"] for r in records] == [t[-1] for t in trace]
    assert [r["local_steps"] for r in records] == [len(t) for t in trace]
    back = [t.step for t in channel.transfers if t.kind == "gradients" and t.step <= len(records)]
    assert back == [r["step"] for r in records if r["state"] == "A"]
    assert {r["state"] for r in records} == {"A", "B", "C"}
    assert max(r["local_steps"] for r in records) == max_local_steps + 1
