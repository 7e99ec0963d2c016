"""Another way to send less between two parties, to compare the asynchronous states with.

Not here: the states themselves (asynchronous.py). Notebook 03b compares.
"""

from collections.abc import Iterable, Iterator

from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.history import CHECKED, UploadingRecord, checked_at_call
from fltoolkit.party import Party
from fltoolkit.split.chain import arriving, check_batch, check_parties
from fltoolkit.split.gates import Gate, Progress, State, ask


@checked_at_call
def train_uploading(
    alice: Party,
    bob: Party,
    batches: Iterable[tuple[Tensor, Tensor]],
    channel: Channel,
    *,
    gate: Gate,
    max_local_steps: int = 1,
) -> Iterator[UploadingRecord]:
    """Asynchronous states batch by batch, where "state C" still uploads: for comparison only.

    The function behaves like SecretFlow's ``split_state_async`` (``loss_thres`` is the gate's
    ``threshold``, ``split_steps`` its ``every``, ``max_fuse_local_steps`` is ``max_local_steps``):
    activations are sent with every batch. The label party learns from them, and, as long as the
    gate then decides for C, from the same batch again, up to ``max_local_steps`` more times. The
    gradient is sent back if the state is A afterwards. So at most the gradients are saved, which is
    a factor of 2. Records also hold ``local_steps``, the label party's steps on this batch.

    >>> import torch
    >>> from torch import nn
    >>> from fltoolkit.split import FreezeAfter
    >>> alice = Party("alice", nn.Linear(2, 3))
    >>> bob = Party("bob", nn.Linear(3, 1), loss_fn=nn.MSELoss())
    >>> batches = [(torch.ones(4, 2), torch.ones(4, 1))] * 4
    >>> gate = FreezeAfter(1, every=1)
    >>> records = list(train_uploading(alice, bob, batches, Channel(), gate=gate))
    >>> [(record["state"], record["nbytes_up"]) for record in records]
    [('B', 59), ('C', 118), ('C', 177), ('C', 236)]
    """
    if gate.every is None:
        raise ValueError(f"{gate!r} waits for the end of an epoch: give it every=1 or more steps")
    if max_local_steps < 1:
        raise ValueError(f"max_local_steps={max_local_steps}: 1 or more")
    check_parties([alice, bob])
    yield CHECKED

    totals = channel.begin({alice.name}, [alice.module, bob.module])
    losses: list[float] = []
    for x, y in arriving(batches):
        check_batch(x, y)
        channel.step += 1
        h = channel.send(alice.name, bob.name, "activations", {"h": alice.forward(x)})["h"]
        local_steps = 0
        while local_steps <= max_local_steps:
            local_steps += 1
            loss, g = bob.loss_and_grad(h.clone().requires_grad_(), y)
            losses.append(loss)
            if len(losses) == gate.every:
                ask(gate, Progress(channel.step, sum(losses) / len(losses), totals()["nbytes"]))
                losses = []
            if gate.state is not State.C:
                break
        if gate.state is State.A and g is not None:
            alice.backward(channel.send(bob.name, alice.name, "gradients", {"g": g})["g"])
        step, state = channel.step, gate.state.value
        yield {"step": step, "state": state, "loss": loss, **totals(), "local_steps": local_steps}
