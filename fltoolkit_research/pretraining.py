"""A small language model that is trained once on this machine and kept in a file.

Not here: its fine-tuning (fltoolkit_research.finetuning). Nothing is ever downloaded: the same
arguments on the same machine give the same weights.
"""

import hashlib
import math
import os
from pathlib import Path

import torch
from torch import nn

from fltoolkit.data.batches import Batches
from fltoolkit.wire import WireError, pack, unpack
from fltoolkit_research.data.text import Text
from fltoolkit_research.models import gpt

BATCH_SIZE, LR, WARM_UP, CLIP_NORM = 16, 6e-3, 50, 1.0


def pretrained(
    text: Text,
    *,
    num_steps: int = 600,
    context: int = 64,
    num_layers: int = 2,
    width: int = 64,
    num_heads: int = 4,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
) -> nn.Sequential:
    """A `gpt` that has learned ``text``: read from the cache, or trained now and put there.

    Training is AdamW with a learning rate that rises for 50 steps to 6e-3 and falls to 0 like a
    cosine, gradients clipped to length 1, batches of 16 windows. The file's name is a sum over all
    arguments, the text's SHA-256 and torch's version. A damaged file is trained again.

    Args:
        text: whose training part is learned.
        num_steps: of 16 windows each.
        context, num_layers, width, num_heads: see `fltoolkit_research.models.gpt`.
        seed: of the first weights and of the order of windows.
        folder: where the file is kept; None: the user's cache folder, of which
            ``pooch.os_cache("fltoolkit")`` says where it is.
    """
    import pooch

    if num_steps < 1:
        raise ValueError(f"num_steps={num_steps}: train for 1 step or more")
    sizes = {"context": context, "num_layers": num_layers, "width": width, "num_heads": num_heads}
    model = gpt(len(text.alphabet), **sizes, seed=seed)
    about = [text.sha256, num_steps, *sizes.values(), seed, BATCH_SIZE, LR, WARM_UP, CLIP_NORM]
    key = hashlib.sha256(repr([*about, torch.__version__]).encode()).hexdigest()[:16]
    place = Path(folder or pooch.os_cache("fltoolkit") / "pretrained")
    path = place / f"gpt_{text.name}_{key}.bin"
    if path.is_file():
        try:
            model.load_state_dict(unpack(path.read_bytes()))
            return model
        except (WireError, RuntimeError):
            path.unlink()
    _learn(model, text, num_steps, context, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")  # two processes may write at once
    part.write_bytes(pack(model.state_dict()))
    part.replace(path)
    return model


def _learn(model: nn.Module, text: Text, num_steps: int, context: int, seed: int) -> None:
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
