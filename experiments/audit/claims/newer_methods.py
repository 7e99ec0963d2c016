"""Owners who differ, few owners who fine-tune: the runs of docs/newer_methods.md."""

from functools import partial

from torch import nn

from experiments.audit import rule, stored
from experiments.audit.claim import Claims, Finding, Runs, Values, Verdict, judged, spread, times
from experiments.audit.measures import OF_NEWER
from experiments.newer.masked import ONE_BIT_EACH
from experiments.newer.owners import OWNERS_DIFFER, data_of, network
from experiments.newer.seeds import (
    BATCH,
    EVOLUTION,
    EXACT,
    FACTORS,
    FINE_TUNED,
    ONE,
    OWNERS,
    SEEDS_1024,
    SLOPE_ROUNDS,
    SLOPES,
    run,
)
from experiments.newer.setting import SEEDS, Setting
from experiments.null_rows import ALONE
from experiments.replications.zeroth_order import Directions, decomfl, fedkseed
from fltoolkit import Channel
from fltoolkit.federated import Local

CLAIMS = Claims(group="federated learning", chosen=OF_NEWER, seeds=SEEDS)
RATE = 0.06  # of EGGROLL's six trials the best
KILOBYTES = 18_000
MASKS = "FedMRN, masks of 0 and 1"
AVERAGING = "FedAvg"
LEARNED = "FedMRN, masks of -1 and 1"
DRAWN = "masks of -1 and 1, after training"


@CLAIMS.add(
    title="DeComFL: a model is fine-tuned for about 1 MB per client in all",
    says="Clients and the server exchange slopes along directions that seeds make: about a "
    "megabyte in all between the server and a client, for models of billions of parameters.",
    source="Li et al. 2024, arXiv 2405.15861, abstract",
    quote="Notably, DeComFL achieves this by transmitting only around 1MB of data in total between "
    "the server and a client to fine-tune a model with billions of parameters.",
    quoted_from="abstract, arXiv 2405.15861, as on openreview.net, omrLHFzC37",
    ours="Four owners fine-tune a network of 2,410 parameters on the digits "
    "(docs/newer_methods.md). No language model is tuned.",
    measures={n: partial(stored.newer, FINE_TUNED, n) for n in (ONE, "FedAvg", ALONE)},
)
def decomfl_2024(runs: Runs) -> Finding:
    """How many rounds a model of billions of parameters needs cannot be seen here."""
    sent = [nbytes / OWNERS for nbytes in runs.all(ONE, "nbytes")]
    words = (
        f"{max(sent) / 1000:.1f} kB for each client in 40 rounds, which measure 800 slopes, both "
        "ways; messages are as long for any model. How many rounds a model of billions of "
        "parameters needs is not tested. Here the accuracy after these rounds is "
        f"{runs.in_points(ONE, 'FedAvg')} points from averaging all weights, and "
        f"{runs.in_points(ONE, ALONE)} from an owner alone. More slopes than these were not tried."
    )
    return Finding(Verdict.UNTESTED, words)


def trained(rank: int | None, seed: int, quick: bool) -> Values:
    """From scratch, 20 pairs per step, as in the table; the rank is all that differs."""

    def train(setting, model, fleet, channel, at_home, seed):  # type: ignore[no-untyped-def]
        local, along = Local(BATCH, lr=RATE, steps=1), Directions(SLOPES, rank=rank)
        rounds = 1 if quick else SLOPE_ROUNDS
        how = {"rounds": rounds, "cohort": OWNERS, "local": local, "along": along}
        yield from decomfl(model, fleet, channel, seed=seed, **how)

    found = run(Setting("seeds", EVOLUTION), seed, train)
    return {key: float(value) for key, value in found.items()}


@CLAIMS.add(
    title="EGGROLL: directions of low rank are as good as full ones",
    source="Sarkar et al. 2025, arXiv 2511.16652v1, abstract",
    quote="EGGROLL does not compromise the performance of ES in tabula-rasa RL settings, despite "
    "being faster",
    ours="Digits from scratch, four owners, 40 steps of 20 pairs, a network of 2,410 parameters "
    "(docs/newer_methods.md). Time is not measured.",
    lacks="Reinforcement learning, populations of thousands, and the normalization of scores.",
    measures={"rank 1": partial(trained, 1), "full rank": partial(trained, None)},
)
def eggroll_2025(runs: Runs) -> Finding:
    """As good as full rank."""
    more = runs.points("rank 1", "full rank")
    words = (
        f"{spread([100 * a for a in runs.all('rank 1', 'accuracy')], '.1f')} % with rank 1, "
        f"{spread(more, '+.2f')} points from full rank with the same pairs, steps and rate. Both "
        "send the same bytes. The rate is the best of EGGROLL's six; full rank has no trial."
    )
    return Finding(judged(rule.at_least(more, -rule.POINTS)), words)


@CLAIMS.add(
    title="FedEx-LoRA: an exact mean of adapters is better",
    says="The mean of the products of factors, which is added to the frozen weights, gives "
    "consistent gains over averaging the factors, with little more communication.",
    source="Singhal et al. 2024, arXiv 2410.09432, abstract",
    quote="We evaluate the method on various models across arithmetic reasoning, commonsense "
    "reasoning, natural language understanding and natural language generation tasks, showing "
    "consistent performance gains over state-of-the-art methods across multiple settings.",
    ours="From MNIST to digits, four owners with equal shares, LoRA of rank 2 in a network of "
    "2,410 parameters (docs/newer_methods.md). The paper tunes language models.",
    measures={n: partial(stored.newer, FINE_TUNED, n) for n in (EXACT, FACTORS, "FedAvg")},
)
def fedex_lora_2024(runs: Runs) -> Finding:
    """Better than averaging the factors."""
    gains = runs.points(EXACT, FACTORS)
    more = times([1 / factor for factor in runs.fewer(EXACT, FACTORS)])
    words = (
        f"{spread(gains, '+.2f')} points from averaging the factors one by one, for {more} times "
        "the bytes of that, with four clients: each gets the factors of all. Averaging all weights "
        f"in float32 would send {times(runs.fewer(EXACT, 'FedAvg'))} times as many."
    )
    return Finding(judged(rule.at_least(gains, 0.0)), words)


def a_round(count: int, seed: int, quick: bool) -> Values:
    """Bytes of one client's round, both ways, for two models of unlike size."""
    data, found = data_of(False, seed), {}
    clients = {"owner": (data.x_train[:24], data.y_train[:24])}
    local, along = Local(12, lr=0.003, steps=SLOPES), Directions(count)
    wide = nn.Sequential(nn.Linear(64, 1000), nn.ReLU(), nn.Linear(1000, 10), nn.LogSoftmax(1))
    for name, model in (("small", network(seed)), ("large", wide)):
        channel, how = Channel(), {"rounds": 1, "cohort": 1, "local": local, "along": along}
        for _ in fedkseed(model, clients, channel, seed=seed, **how):
            pass
        found[name] = float(channel.nbytes())
    return found


@CLAIMS.add(
    title="FedKSeed: all weights are tuned for less than 18 kB per round",
    says="A client and the server exchange numbers of seeds and slopes in place of weights: below "
    "18 kilobytes in a round, whatever the size of the model.",
    source="Qin et al. 2023, arXiv 2312.06353, title and abstract",
    quote="It significantly reduces transmission requirements between the server and clients to "
    "just a few random seeds and scalar gradients, amounting to only a few thousand bytes, making "
    "federated full-parameter tuning of billion-sized LLMs possible on devices.",
    quoted_from="abstract, arXiv 2312.06353v5; the title says “under 18 Kilobytes”",
    ours="Bytes of a round for two networks; and the rows of docs/newer_methods.md, where four "
    "owners fine-tune a small network on the digits. No language model is tuned.",
    own_task=True,
    measures={
        "a round with 1,024 seeds": partial(a_round, 1024),
        "a round with 4,096 seeds": partial(a_round, 4096),
        **{n: partial(stored.newer, FINE_TUNED, n) for n in (SEEDS_1024, "FedAvg", ALONE)},
    },
)
def fedkseed_2023(runs: Runs) -> Finding:
    """Below 18 kB for both models; about accuracy the quoted words promise nothing."""
    sizes = {name: runs.all(f"a round with {name} seeds", "large") for name in ("1,024", "4,096")}
    same = all(
        run["small"] == run["large"] for name in sizes for run in runs[f"a round with {name} seeds"]
    )
    listed = " and ".join(f"{max(each):,.0f} B with {name} seeds" for name, each in sizes.items())
    words = (
        f"A client's round takes {listed}, both ways and {SLOPES} steps, for 2,410 parameters and "
        "for 75,010 alike. The verdict is on bytes alone: after 40 rounds of fine-tuning the "
        f"accuracy is {runs.in_points(SEEDS_1024, 'FedAvg')} points from averaging "
        f"all weights, and {runs.in_points(SEEDS_1024, ALONE)} from an owner alone."
    )
    return Finding(judged(rule.every(same, max(sizes["4,096"]) < KILOBYTES)), words)


BASELINES = ("signs, with error feedback", "DRIVE, which is EDEN of 1 bit")


@CLAIMS.add(
    title="FedMRN: one bit per value is as good as averaging",
    says="Clients learn a mask of one bit per parameter on noise that a seed makes. The accuracy "
    "is that of averaging, and above that of other methods.",
    source="Li et al. 2024, arXiv 2408.03220v1, abstract, and the authors' program",
    quote="The results show that FedMRN exhibits superior convergence speed and test accuracy "
    "compared to relevant baselines, while attaining a similar level of accuracy as FedAvg.",
    ours="Digits, four owners with equal shares, a network of 2,410 parameters, 30 rounds "
    "(docs/newer_methods.md).",
    measures={
        n: partial(stored.newer, ONE_BIT_EACH, n)
        for n in (MASKS, AVERAGING, *BASELINES, LEARNED, DRAWN)
    },
)
def fedmrn_2024(runs: Runs) -> Finding:
    """As good as averaging; which baselines are relevant the abstract does not say."""
    lost = runs.points(MASKS, AVERAGING)
    listed = ", ".join(f"{n}: {runs.in_points(MASKS, n)}" for n in BASELINES)
    words = (
        f"{spread(lost, '+.2f')} points from averaging in float32, of which {rule.POINTS:g} may be "
        f"lost. From codecs that send one bit per value, too, {listed}. The abstract does not "
        "name its baselines, and the verdict is on averaging. Masks of -1 and 1 that are learned "
        f"are {runs.in_points(LEARNED, DRAWN)} from those drawn after training."
    )
    return Finding(judged(rule.at_least(lost, -rule.POINTS)), words)


@CLAIMS.add(
    title="FL-bench: SCAFFOLD is not significantly better than averaging",
    source="FL-bench, https://github.com/KarhouTam/FL-bench/issues/150, January 2025",
    known="read",
    quote="However, for CIFAR-10, the performance of the three algorithms is not significantly "
    "different. According to the Scaffold paper, Scaffold should perform better than FedAvg and "
    "FedProx in non-IID settings.",
    quoted_from="a user, KarhouTam/FL-bench, issue 150, January 2025",
    ours="Digits, twenty owners with two shards of sorted samples "
    "(docs/newer_methods.md). Theirs is CIFAR-10 with Dirichlet parts. FedProx was not run.",
    measures={name: partial(stored.newer, OWNERS_DIFFER, name) for name in ("FedAvg", "SCAFFOLD")},
)
def fl_bench_scaffold(runs: Runs) -> Finding:
    """As good as each other; that noise hides a difference is not enough."""
    gains = runs.points("SCAFFOLD", "FedAvg")
    more = times([1 / factor for factor in runs.fewer("SCAFFOLD", "FedAvg")])
    words = (
        f"{spread(gains, '+.2f')} points of the owners' accuracy, for {more} times the bytes: a "
        "control variate travels with each model, both ways. About the same is within half a point."
    )
    return Finding(judged(rule.within(gains, rule.POINTS)), words)


TOGETHER = ("FedAvg", "SCAFFOLD", "FedPer, last layer at home", "Ditto")


@CLAIMS.add(
    title="PFLlib: each owner alone is best where owners differ",
    source="PFLlib, https://github.com/TsingZ0/PFLlib/issues/243, July 2025",
    known="read",
    quote="When we tested Local, FedProx, FedAvg, and SCAFFOLD on the MNIST dataset, using all the "
    "framework's default hyperparameters, we observed that Local mode achieved the highest "
    "test_acc (0.991) with the fewest communication rounds.",
    quoted_from="a user, TsingZ0/PFLlib, issue 243, July 2025",
    ours="Digits, twenty owners with two shards of sorted samples, an owner's accuracy on test "
    "images distributed as its own classes are (docs/newer_methods.md). FedProx was not run.",
    measures={name: partial(stored.newer, OWNERS_DIFFER, name) for name in (ALONE, *TOGETHER)},
)
def pfllib_local(runs: Runs) -> Finding:
    """Better than one model for all; and the personal methods beside it."""
    gains = {name: runs.points(ALONE, name) for name in TOGETHER}
    listed = ", ".join(f"{name} {spread(each, '+.2f')}" for name, each in gains.items())
    words = f"An owner alone, minus the method, in points: {listed}. It sends nothing."
    right = (rule.at_least(gains[name], 0.0) for name in TOGETHER[:2])
    return Finding(judged(rule.every(*right)), words)
