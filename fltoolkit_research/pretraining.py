"""A small language model that has learned a text; nothing is downloaded."""

import math

import torch
from torch import nn

from fltoolkit.data.batches import Batches
from fltoolkit_research.data.text import Text
from fltoolkit_research.models import gpt

BATCH_SIZE, LR, WARM_UP, CLIP_NORM = 16, 6e-3, 50, 1.0


def pretrained(
    text: Text,
    *,
    num_steps: int = 600,
    context: int = 64,
    seed: int = 0,
    **sizes: int,
) -> nn.Sequential:
    """A `gpt` that has learned ``text``: the same arguments give the same weights on one machine.

    Training is AdamW with a learning rate that rises for 50 steps to 6e-3 and falls to 0 like a
    cosine, gradients clipped to length 1, batches of 16 windows.

    Args:
        text: whose training part is learned.
        num_steps: of 16 windows each.
        context: see `fltoolkit_research.models.gpt`.
        seed: of the first weights and of the order of windows.
        sizes: others of the `gpt`, such as ``num_layers=4``.
    """
    if num_steps < 1:
        raise ValueError(f"num_steps={num_steps}: train for 1 step or more")
    model = gpt(len(text.alphabet), context=context, seed=seed, **sizes)
    batches = Batches(*text.windows(context), BATCH_SIZE, seed=seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)

    def factor(step: int) -> float:
        return min((step + 1) / WARM_UP, 1.0) * 0.5 * (1 + math.cos(math.pi * step / num_steps))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    num_epochs = math.ceil(num_steps / len(batches))
    for _, (x, y) in zip(range(num_steps), batches.epochs(num_epochs), strict=False):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        schedule.step()
    return model
