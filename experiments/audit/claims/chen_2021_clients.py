"""Asynchronous states with ten clients."""

from experiments.async_states.run import run
from experiments.async_states.settings import Task, settings
from experiments.audit.claim import Claim, Runs, Values, judge_saving
from experiments.audit.measures import OF_ASYNC_STATES
from experiments.audit.stored import kept

VANILLA, GATED = "vanilla, float32", "loss threshold 0.1, Float8"


def measure_of(name: str):
    def measure(seed: int, quick: bool) -> Values:
        task = Task()
        setting = next(s for s in settings(task) if s.clients == 10 and s.name == name)
        result = kept("async_states").get(setting.key(task, seed)) or run(task, setting, seed)
        return {key: result[key] for key in ("accuracy", "nbytes", "nbytes_up", "nbytes_down")}

    return measure


def judge(runs: Runs):
    """Half a point is allowed, and the factor is that of ten clients."""
    return judge_saving(
        runs,
        GATED,
        VANILLA,
        claimed=11.3,
        points=0.5,
        why="Models that are handed on from client to client are counted here.",
    )


CLAIM = Claim(
    title="The same with ten clients: 11.3 times less",
    group="split learning",
    says="11.9 and 11.3 times less communication with 5 and 10 clients, within 0.5 %: VGG-11 on "
    "CIFAR-10.",
    source="Chen, Li & Chakrabarti 2021, arXiv 2107.09786, abstract",
    known="abstract",
    quote="Simulation results on VGG11, VGG13 and ResNet18 models on CIFAR-10 show that the "
    "communication cost is reduced by 1.64x-106.7x and the computations in the client are reduced "
    "by 2.86x-32.1x when the accuracy degradation is less than 0.5% for the single-client case. "
    "For 5 and 10-client cases, the communication cost reduction is 11.9x and 11.3x on VGG11 for "
    "0.5% loss in accuracy.",
    quoted_from="abstract, arXiv 2107.09786",
    ours="Ten clients on MNIST with the network of notebook 01, 15 epochs; loss threshold 0.1, "
    "8-bit floats.",
    judge=judge,
    chosen=OF_ASYNC_STATES,
    measures={VANILLA: measure_of(VANILLA), GATED: measure_of(GATED)},
)
