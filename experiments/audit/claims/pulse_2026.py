"""How many bfloat16 weights a step of training leaves as they are."""

from functools import partial
from statistics import mean

import torch
from torch import Tensor, nn

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread, times
from experiments.language import finetune
from fltoolkit.codecs import Pipeline
from fltoolkit.data import Batches
from fltoolkit.trees import Tree
from fltoolkit_research import pretrained
from fltoolkit_research.codecs import ContextEntropy, Narrow

THEIRS, OURS = 1e-6, 3e-3
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


def measure(lr: float, seed: int, quick: bool) -> Values:
    """The share of weights that stay the same in a step [%], and the bits of a patch per weight.

    The small language model has learned Shakespeare (a quick one hardly) and goes on with AdamW,
    whose weights are float32; what others get is rounded to bfloat16.
    """
    text = finetune.text_of("shakespeare")
    model = pretrained(text, num_steps=2 if quick else 1500, context=finetune.CONTEXT)
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
    changed, nbytes = (mean(each) for each in zip(*found, strict=True))
    return {"same": 100 * (1 - changed), "bits": 8 * nbytes / size}


def judge(runs: Runs) -> Finding:
    """Above 99 % at the rates of reinforcement learning; and at those that train a small model."""
    same = {name: [run["same"] for run in runs[name]] for name in runs}
    fewer = {name: [16 / run["bits"] for run in runs[name]] for name in runs}
    words = (
        f"At a learning rate of {THEIRS:g}, a step leaves {spread(same['theirs'])} % of the "
        f"bfloat16 weights as they are, and a lossless patch is {times(fewer['theirs'], '.0f')} "
        f"times shorter than all weights. At {OURS:g}, which fine-tunes this model best, it is "
        f"{spread(same['ours'])} % and {times(fewer['ours'])} times. The "
        "verdict is on the quoted sentence; a patch over 100 times shorter is not reached here."
    )
    return Finding(judged(rule.at_least(same["theirs"], 99)), words)


CLAIM = Claim(
    title="99 % of bfloat16 weights are unchanged by a step, at small learning rates",
    group="language models",
    says="In reinforcement learning of language models more than 99 % of the bfloat16 weights are "
    "the same after a step, so a patch of the others is over 100 times shorter than the model.",
    source="Miahi and Belilovsky 2026, PULSE, arXiv 2602.03839v1, abstract",
    quote="We find that update sparsity is consistently high, frequently exceeding 99% across "
    "practically relevant settings.",
    ours="The small GPT of 111,425 weights, pretrained on Shakespeare, goes on with AdamW: "
    "prediction of the next character, no reinforcement learning. A mean of five steps after ten.",
    judge=judge,
    measures={"theirs": partial(measure, THEIRS), "ours": partial(measure, OURS)},
    seeds=range(10, 15),
)
