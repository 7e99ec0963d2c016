"""Which bfloat16 weights change in a step, and how long a lossless patch of the others is.

    python -m experiments.newer.unchanged            # measures and prints the table
    python -m experiments.newer.unchanged --write    # writes it into docs/newer_methods.md

The small language model has learned Shakespeare and goes on with AdamW, whose weights are float32.
What others get is rounded to bfloat16: 16 bits per weight. PULSE (Miahi and Belilovsky 2026, arXiv
2602.03839) sends which weights have changed, and their new values. Here the package's coder of
symbols writes both; for a value it gets the difference of the 16 bits, read as whole numbers.
"""

from collections.abc import Sequence
from statistics import mean

import torch
from torch import Tensor, nn

from experiments.language import finetune
from experiments.newer.report import command
from experiments.newer.setting import SEEDS
from experiments.tables import markdown
from fltoolkit.codecs import Pipeline
from fltoolkit.data import Batches
from fltoolkit.trees import Tree
from fltoolkit_research import pretrained
from fltoolkit_research.codecs import ContextEntropy, Narrow
from fltoolkit_research.intervals import mean_ci

RATES = (6e-3, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6)  # 6e-3 trained the model, 3e-3 fine-tunes it
WARM_UP, STEPS = 10, 5
PATCH = Pipeline(Narrow(), ContextEntropy())


def ordered(t: Tensor) -> Tensor:
    """The 16 bits of bfloat16 values as int32, in the order of the values."""
    bits = t.bfloat16().view(torch.int16).int()
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def patched(old: Tree, new: Tree) -> tuple[float, int]:
    """The share of values that differ between two states, and the bytes of a patch."""
    changes = {name: (ordered(t) - ordered(old[name])).short() for name, t in new.items()}
    where = {f"where/{name}": (t != 0).byte() for name, t in changes.items()}
    message = PATCH.encode({**where, **{name: t[t != 0] for name, t in changes.items()}})
    came = PATCH.decode(message)
    for name, t in new.items():
        again = ordered(old[name]).short()
        again[came[f"where/{name}"].bool()] += came[name]  # modulo 2^16
        assert torch.equal(again, ordered(t).short())
    changed = sum(int(t.sum()) for t in where.values())
    return changed / sum(t.numel() for t in new.values()), len(message)


def measured(lr: float, seed: int, pretrained_steps: int = 1500) -> tuple[float, float]:
    """The share of weights that stay the same in a step [%], and the bits of a patch per weight."""
    text = finetune.text_of("shakespeare")
    model = pretrained(text, num_steps=pretrained_steps, context=finetune.CONTEXT)
    batches = Batches(*text.windows(finetune.CONTEXT), 16, seed=seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    found, size = [], sum(t.numel() for t in model.state_dict().values())
    for step, (x, y) in zip(range(WARM_UP + STEPS), batches.epochs(1), strict=False):
        old = {name: t.clone() for name, t in model.state_dict().items()}
        optimizer.zero_grad()
        nn.functional.nll_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step >= WARM_UP:
            found.append(patched(old, model.state_dict()))
    return 100 * (1 - mean(c for c, _ in found)), 8 * mean(b for _, b in found) / size


def table(seeds: Sequence[int] = SEEDS) -> str:
    """A row for each learning rate."""
    found = []
    for lr in RATES:
        same, bits = zip(*(measured(lr, seed) for seed in seeds), strict=True)
        fewer = mean_ci([16 / b for b in bits], ".1f")
        found.append([f"{lr:g}", mean_ci(list(same)), mean_ci(list(bits)), fewer])
    return markdown(
        "learning rate of AdamW | weights unchanged by a step [%] | bits per weight of a patch "
        "| times fewer than bfloat16",
        found,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    command("unchanged", table, SEEDS)
