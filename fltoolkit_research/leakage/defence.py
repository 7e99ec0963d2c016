"""Two defences against leakage at the cut, `NoPeek` and `Noise`; both cost accuracy.

Not here: how much leaks (attacks.py). Neither defence gives a proven bound: one can only measure
how much the attacks still find. Notebook 08 measures both.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fltoolkit.codecs.quantize import FLOAT32_MAX
from fltoolkit.codecs.stage import Parts, RandomStage, floats
from fltoolkit.party import Optimizer, Party
from fltoolkit.shapes import Float
from fltoolkit_research.leakage.dependence import batch_distance_correlation


class NoPeek(Party):
    """A client that learns to hide its inputs: its loss is the label party's + weight * dCor(x, h).

    dCor is the distance correlation of a batch's inputs and its activations
    (`batch_distance_correlation`). When the gradient g of the label party's loss has come back, the
    client adds that of its own term, g + weight * d dCor(x, h) / d h, and continues as usual. No
    additional byte is sent. With weight 0 it computes the same bits as a `Party`.

    Use it for the party that holds the inputs. The distances need memory for batch^2 values.
    Source: Vepakomma et al. 2020, arXiv 2008.09161, equation 1: weight = alpha_1 / alpha_2.
    """

    def __init__(
        self, name: str, module: nn.Module, optimizer: Optimizer | None = None, *, weight: float
    ):
        super().__init__(name, module, optimizer)
        if not 0 <= weight < math.inf:
            raise ValueError(f"weight={weight}: must be 0 or more, and finite; start with 0.1")
        self.weight = weight  # larger = less leaks, and less is learned

    def backward(self, g: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."] | None:
        """Learn from ``g`` and from the distance correlation of inputs and activations."""
        if self.weight and self.pending is not None and len(g) > 1:
            x, output = self.pending
            h = output.detach().requires_grad_()
            leaks = batch_distance_correlation(x.detach().to(h), h)
            (own,) = torch.autograd.grad(leaks, h)
            g = g.to(h) + self.weight * own
        return super().backward(g)


@dataclass
class Noise(RandomStage):
    """Adds Gaussian noise of standard deviation ``sigma`` to every value before it is sent.

    It is a stage of a codec: ``Pipeline(Noise(1.0), Quantize(4))``. Noise on activations hides
    inputs; noise on gradients hides labels (the "iso" defence of Li et al. 2021, arXiv 2102.08504).

    This is not differential privacy: activations are not clipped, so training may make them larger
    than any sigma. Anyone who knows ``seed`` can subtract the noise.
    Source: for split learning e.g. Titcombe et al. 2021, arXiv 2104.05743 (with Laplace noise).
    """

    sigma: float  # larger = less leaks, and less is learned
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise ValueError(f"sigma={self.sigma}: must be 0 or more, and finite")

    def apply(self, parts: Parts) -> Parts:
        """Add the noise."""
        random = np.random.Generator(np.random.SFC64(self.draw_key()))
        out = dict(parts)
        for name, values in floats(parts).items():
            drawn = torch.from_numpy(random.standard_normal(tuple(values.shape), np.float32))
            out[name] = (values + self.sigma * drawn).clamp(-FLOAT32_MAX, FLOAT32_MAX)
        return out

    def undo(self, parts: Parts) -> Parts:
        """Return the parts unchanged: the noise stays."""
        return parts
