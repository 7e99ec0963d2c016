"""Fine-tuning: a frozen model, and small changes that are added to its weights, learned and sent.

Here: changes of full size, LoRA and FFA-LoRA, for any model of torch. Notebook 12 compares them by
bytes.
"""

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fltoolkit.shapes import Float
from fltoolkit.trees import Tree

__all__ = ["FineTuned", "LowRankChange", "full", "lora"]

Where = Callable[[str], bool]
"""``where(name)``: whether the weight with this name, as in ``state_dict``, is changed."""


class FineTuned(nn.Module):
    """A model whose weights are frozen, plus a learned change for some of them.

    Only the changes are parameters and stand in ``state_dict`` (beside buffers such as
    BatchNorm's), so only they are learned, saved and sent: everybody has the pretrained model. They
    begin at zero. To go on from a saved state, wrap the same pretrained model again.

    Args:
        model: the pretrained model; it is copied and not changed.
        changes: for each weight that is changed, by its name, a module without inputs that returns
            what is added to it.

    Raises ValueError if there is no change at all.
    """

    def __init__(self, model: nn.Module, changes: Mapping[str, nn.Module]):
        super().__init__()
        if not changes:
            known = [name for name, _ in model.named_parameters()]
            raise ValueError(
                f"no weight is to be changed, so nothing would be learned; there are "
                f"{', '.join(known)}"
            )
        self.names = list(model.state_dict())  # of the plain model
        self.base = _frozen(copy.deepcopy(model))
        self.changes = nn.ModuleDict(  # whose names hold no dot
            {name.replace(".", "/"): change for name, change in changes.items()}
        )

    def forward(self, x: Tensor) -> Tensor:
        """What the model computes with its changed weights."""
        output: Tensor = functional_call(self.base, self._changed(), (x,))
        return output

    @torch.no_grad()
    def merged(self) -> Tree:
        """The changed weights under the names of the plain model, for its ``load_state_dict``."""
        own = dict(self.base.named_buffers(remove_duplicate=False))
        changed = {id(own[name]): tensor for name, tensor in self._changed().items()}
        return {name: changed.get(id(own[name]), own[name]).clone() for name in self.names}

    def _changed(self) -> Tree:
        base = dict(self.base.named_buffers())
        named = ((key.replace("/", "."), change) for key, change in self.changes.items())
        return {name: base[name] + change() for name, change in named}


class FullChange(nn.Module):
    """A change of the weight's own shape: full fine-tuning."""

    def __init__(self, weight: Tensor):
        super().__init__()
        self.delta = nn.Parameter(torch.zeros_like(weight))

    def forward(self) -> Tensor:
        """The change itself."""
        return self.delta


class LowRankChange(nn.Module):
    """A change of low rank for a matrix, ``alpha / rank * B A``: LoRA.

    B [rows, rank] begins at zero, so the first change is zero. A [rank, columns] begins at random
    numbers of deviation 1 / sqrt(columns), which everybody draws from the seed; only its difference
    from them is learned and sent. With ``freeze_a`` only B is learned: then a mean of clients' B is
    exactly the mean of their changes, which is not so if both are averaged.

    Source: Hu et al. 2021, arXiv 2106.09685, eq. 3; frozen A: FFA-LoRA, Sun et al. 2024, arXiv
    2403.12313, section 4.
    """

    def __init__(
        self,
        weight: Float[Tensor, "rows columns"],
        rank: int,
        *,
        alpha: float,
        freeze_a: bool = False,
        generator: torch.Generator,
    ):
        super().__init__()
        rows, columns = weight.shape
        drawn = torch.randn(rank, columns, generator=generator) / columns**0.5
        self.register_buffer("drawn", drawn.to(weight), persistent=False)
        self.drawn: Tensor
        self.scale = alpha / rank
        self.b = nn.Parameter(torch.zeros(rows, rank).to(weight))
        self.a = None if freeze_a else nn.Parameter(torch.zeros_like(self.drawn))

    def forward(self) -> Float[Tensor, "rows columns"]:
        """``alpha / rank * B A``."""
        a = self.drawn if self.a is None else self.drawn + self.a
        return self.scale * (self.b @ a)


def full(model: nn.Module, *, where: Where | None = None) -> FineTuned:
    """Fine-tune all weights, or those that ``where`` names: each gets a change of its own shape."""
    chosen = {n: w for n, w in model.named_parameters() if where is None or where(n)}
    return FineTuned(model, {name: FullChange(weight) for name, weight in chosen.items()})


def lora(
    model: nn.Module,
    rank: int,
    *,
    alpha: float | None = None,
    where: Where | None = None,
    freeze_a: bool = False,
    seed: int,
) -> FineTuned:
    """LoRA for the matrices of all linear layers, or of those that ``where`` names.

    A matrix [rows, columns] costs ``rank * (rows + columns)`` values in a message in place of
    ``rows * columns``; with ``freeze_a`` (FFA-LoRA) only ``rank * rows``. See `LowRankChange`.

    Args:
        model: the pretrained model.
        rank: of each change.
        alpha: the change is ``alpha / rank * B A``; None: 2 * rank, so that the factor is 2.
        where: which weights of linear layers; None: all.
        freeze_a: learn and send B only.
        seed: of the first A, which every party draws for itself.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {
        f"{path}.weight".removeprefix("."): part.weight  # a model that is one layer has no path
        for path, part in model.named_modules()
        if isinstance(part, nn.Linear)
    }
    chosen = {name: weight for name, weight in weights.items() if where is None or where(name)}
    scale = 2.0 * rank if alpha is None else alpha
    changes = {
        name: LowRankChange(w, rank, alpha=scale, freeze_a=freeze_a, generator=generator)
        for name, w in chosen.items()
    }
    return FineTuned(model, changes)


def _frozen(model: nn.Module) -> nn.Module:
    """Every parameter becomes a buffer that is not saved; tied ones stay tied."""
    tensors = {id(p): p.detach().clone() for p in model.parameters()}
    for part in model.modules():
        for name, param in list(part.named_parameters(recurse=False, remove_duplicate=False)):
            delattr(part, name)
            part.register_buffer(name, tensors[id(param)], persistent=False)
    return model
