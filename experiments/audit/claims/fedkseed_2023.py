"""Seeds and scalars in place of weights: how long are the messages of a round?"""

from functools import partial

from torch import nn

from experiments.audit import rule, stored
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread
from experiments.audit.measures import OF_NEWER
from experiments.newer.owners import data_of, network
from experiments.newer.seeds import FINE_TUNED, SEEDS_1024, SLOPES
from experiments.newer.setting import SEEDS
from experiments.null_rows import ALONE
from experiments.replications.zeroth_order import Directions, fedkseed
from fltoolkit import Channel
from fltoolkit.federated import Local

KILOBYTES = 18_000


def a_round(count: int, seed: int, quick: bool) -> Values:
    """Bytes of one client's round, both ways, for two models of unlike size."""
    data, found = data_of(False), {}
    clients = {"owner": (data.x_train[:24], data.y_train[:24])}
    local, along = Local(12, lr=0.003, steps=SLOPES), Directions(count)
    wide = nn.Sequential(nn.Linear(64, 1000), nn.ReLU(), nn.Linear(1000, 10), nn.LogSoftmax(1))
    for name, model in (("small", network(seed)), ("large", wide)):
        channel, how = Channel(), {"rounds": 1, "cohort": 1, "local": local, "along": along}
        for _ in fedkseed(model, clients, channel, seed=seed, **how):
            pass
        found[name] = float(channel.nbytes())
    return found


def judge(runs: Runs) -> Finding:
    """Below 18 kB for both models; about accuracy the quoted words promise nothing."""
    sizes = {name: runs.all(f"a round with {name} seeds", "large") for name in ("1,024", "4,096")}
    same = all(
        run["small"] == run["large"] for name in sizes for run in runs[f"a round with {name} seeds"]
    )
    listed = " and ".join(f"{max(each):,.0f} B with {name} seeds" for name, each in sizes.items())
    words = (
        f"A client's round takes {listed}, both ways and {SLOPES} steps, for 2,410 parameters and "
        "for 75,010 alike. The verdict is on bytes alone: after 40 rounds of fine-tuning the "
        f"accuracy is {spread(runs.points(SEEDS_1024, 'FedAvg'), '+.2f')} points from averaging "
        f"all weights, and {spread(runs.points(SEEDS_1024, ALONE), '+.2f')} from an owner alone."
    )
    return Finding(judged(rule.every(same, max(sizes["4,096"]) < KILOBYTES)), words)


CLAIM = Claim(
    title="FedKSeed: all weights are tuned for less than 18 kB per round",
    group="federated learning",
    says="A client and the server exchange numbers of seeds and slopes in place of weights: below "
    "18 kilobytes in a round, whatever the size of the model.",
    source="Qin et al. 2023, arXiv 2312.06353, title and abstract",
    known="abstract",
    quote="It significantly reduces transmission requirements between the server and clients to "
    "just a few random seeds and scalar gradients, amounting to only a few thousand bytes, making "
    "federated full-parameter tuning of billion-sized LLMs possible on devices.",
    quoted_from="abstract, arXiv 2312.06353v5; the title says “under 18 Kilobytes”",
    ours="Bytes of a round for two networks; and the rows of docs/newer_methods.md, where four "
    "owners fine-tune a small network on the digits. No language model is tuned.",
    own_task=True,
    judge=judge,
    chosen=OF_NEWER,
    measures={
        "a round with 1,024 seeds": partial(a_round, 1024),
        "a round with 4,096 seeds": partial(a_round, 4096),
        **{n: partial(stored.newer, FINE_TUNED, n) for n in (SEEDS_1024, "FedAvg", ALONE)},
    },
    seeds=SEEDS,
)
