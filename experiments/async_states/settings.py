"""The settings: which gate, which codecs, how many clients."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain

from experiments.runs import digest
from fltoolkit.codecs import Codec, Float8, Only, Pipeline, Quantize, TopK
from fltoolkit.split import AlwaysA, BudgetGate, FreezeAfter, Gate, LossGate, Periodic, Upload
from fltoolkit_research.codecs import ContextEntropy

BATCH_SIZE, NUM_CLIENTS = 64, 10
LR = 0.03
SEEDS, MORE_SEEDS = (0, 1, 2), (0, 1, 2, 3, 4)
FRESH_SEEDS = (5, 6, 7)  # no setting was chosen by looking at these
MORE_FRESH_SEEDS = (*FRESH_SEEDS, 8, 9)  # of what README says
SAMPLES = {"digits": 1437, "mnist": 60_000}  # digits for tests
CUT = 640  # activations a sample


@dataclass(frozen=True)
class Task:
    """What is learned, how long, by how many clients where there are several."""

    data: str = "mnist"
    model: str = "mlp"
    epochs: int = 15
    clients: int = NUM_CLIENTS

    @property
    def num_steps(self) -> int:
        """Of a run with one client."""
        return self.epochs * -(-SAMPLES[self.data] // BATCH_SIZE)

    @property
    def dense_nbytes(self) -> int:
        """What vanilla's activations and gradients take in float32, without headers."""
        return self.epochs * SAMPLES[self.data] * CUT * 8


@dataclass(frozen=True)
class Setting:
    """One way to train: who speaks when (the gate), and how what is said is coded."""

    part: str  # the table it belongs to
    family: str  # the line it belongs to
    name: str
    gate: Gate
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    upload: Upload = field(default_factory=Upload)
    clients: int = 1
    seeds: tuple[int, ...] = SEEDS

    def key(self, task: Task, seed: int) -> str:
        """The same for the same run, whatever it is called: so a rerun knows what is there."""
        what = {**asdict(task), "clients": self.clients, "seed": seed, "lr": LR}
        what |= {"batch_size": BATCH_SIZE, "gate": repr(self.gate), "upload": repr(self.upload)}
        what |= {"codecs": {kind: repr(self.codecs[kind]) for kind in sorted(self.codecs)}}
        return digest(what)


FLOAT8 = {"activations": Pipeline(Float8()), "gradients": Pipeline(Float8())}
"""What the paper sends (Chen et al. 2021, arXiv 2107.09786): 8-bit floats, both ways."""
FEW_BITS = {
    "activations": Pipeline(Quantize(3), ContextEntropy()),
    "gradients": Pipeline(TopK(0.05), Quantize(4), ContextEntropy()),
}
"""3 bits per value up, the largest 5 % of the values in 4 bits down; both entropy-coded."""
FEWER_BITS = {
    "activations": Pipeline(Quantize(2), ContextEntropy()),
    "gradients": Pipeline(TopK(0.02), Quantize(4), ContextEntropy()),
}
"""2 bits per value up, of differences (``Upload(delta=True)``), and the largest 2 % down."""


def settings(task: Task) -> list[Setting]:
    """All settings, in the order of the tables."""
    parts = (whole_epochs, few_bits, equal_bytes, several_clients)
    return list(chain.from_iterable(part(task) for part in parts))


def whole_epochs(task: Task) -> Iterator[Setting]:
    """8-bit floats; a period is an epoch, as in the paper. Budgets are spent step by step."""

    def setting(
        family: str, name: str, gate: Gate, codecs: Mapping[str, Codec] = FLOAT8
    ) -> Setting:
        return Setting("8-bit floats", family, name, gate, codecs)

    yield setting("vanilla, float32", "vanilla, float32", AlwaysA(), {})
    yield setting("vanilla, 8 bits", "vanilla, 8 bits", AlwaysA())
    for threshold in (0.02, 0.05, 0.1, 0.2, 0.4):
        yield setting("loss threshold", f"loss threshold {threshold}", LossGate(threshold))
    yield setting("periodic", "periodic 8", Periodic(8))
    yield setting("freeze", "freeze after 2", FreezeAfter(2))
    for factor in (100, 25):
        gate = BudgetGate(task.dense_nbytes // factor, task.num_steps)
        yield setting("BudgetGate", f"BudgetGate, 1/{factor}", gate)


def few_bits(task: Task) -> Iterator[Setting]:
    """Strong codecs: what is left for the gates to save? On seeds not used for tuning."""
    part, vanilla = "few bits", "vanilla, float32"
    yield Setting(part, vanilla, vanilla, AlwaysA(), seeds=MORE_FRESH_SEEDS)
    gate = BudgetGate(task.dense_nbytes // 105, task.num_steps, pace=0.5)
    yield Setting(part, part, "few bits, BudgetGate, 1/105", gate, FEW_BITS, seeds=MORE_FRESH_SEEDS)
    gate = BudgetGate(task.dense_nbytes // 110, task.num_steps)
    name, upload = "fewer bits, differences, BudgetGate, 1/110", Upload(delta=True)
    yield Setting(part, "fewer bits", name, gate, FEWER_BITS, upload, seeds=FRESH_SEEDS)
    yield Setting(part, part, "few bits, always A", AlwaysA(), FEW_BITS, seeds=FRESH_SEEDS)


def equal_bytes(task: Task) -> Iterator[Setting]:
    """The same codecs, about the same bytes: a gate is worth what it does with them.

    Two budgets, given by what a loss threshold spends on MNIST: with epochs as periods, and with
    periods of 100 steps. The others' periods are chosen to spend as much on MNIST.
    """
    large: dict[str, Gate] = {
        "loss threshold": LossGate(0.1),
        "periodic": Periodic(5, every=782),
        "freeze": FreezeAfter(4, every=1042),
        "BudgetGate": BudgetGate(384_500_000, task.num_steps),
    }
    small: dict[str, Gate] = {
        "loss threshold": LossGate(0.1, every=100),
        "periodic": Periodic(43, every=24),
        "freeze": FreezeAfter(1, every=333),
        "BudgetGate": BudgetGate(41_000_000, task.num_steps),
    }
    for size, gates in (("large", large), ("small", small)):
        for name, gate in gates.items():
            part = f"equal bytes, {size} budget"
            yield Setting(part, name, name, gate, FLOAT8, seeds=MORE_SEEDS)


def several_clients(task: Task) -> Iterator[Setting]:
    """The bottom is handed on: what does that cost, and which gate avoids it?"""
    model = {"model": Only(Pipeline(Quantize(8), ContextEntropy()))}
    for name, gate, codecs in (
        ("vanilla, float32", AlwaysA(), {}),
        ("loss threshold 0.1, Float8", LossGate(0.1), FLOAT8),
        ("periodic 4, Float8", Periodic(4), FLOAT8),
        ("periodic 4, Float8, models in 8 bits", Periodic(4), FLOAT8 | model),
    ):
        part = f"{task.clients} clients"
        yield Setting(part, name, name, gate, codecs, clients=task.clients)
