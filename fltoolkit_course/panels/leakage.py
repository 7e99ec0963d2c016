"""Reconstructions beside the originals, and a panel with sliders for bits, noise and fraction.

Here: `describe_leak`, which any script can call, its picture, and the panel of notebook 08.
Not here: the attack (the room leakage). The panel needs ipywidgets, 7.7 or newer.
"""

import html
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit.codecs.sparse import TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.evaluation import evaluate
from fltoolkit.party import Party
from fltoolkit.plots.style import describe, new_axes, picture
from fltoolkit_course.plots.below_controls import (
    LOOK,
    BelowControls,
    Bundle,
    find_ipywidgets,
    slider,
)
from fltoolkit_research.leakage.attacks import explained_variance, overhear, train_decoder
from fltoolkit_research.leakage.defence import Noise
from fltoolkit_research.leakage.dependence import corrected_distance_correlation

_NUM_SHOWN = 12  # images in a row


class LeakReport(NamedTuple):
    """What `describe_leak` found."""

    codec: str  # its repr
    accuracy: float  # on the victims' samples
    nbytes: float  # bytes that one sample sends to the label party
    explained_variance: float  # of the victims' inputs
    dependence: float  # square root of the corrected distance correlation of inputs and messages
    guess: Tensor  # the reconstructions

    @property
    def sentence(self) -> str:
        """The whole report in words."""
        return (
            f"{self.nbytes:,.1f} bytes per sample go up, {self.accuracy:.1%} are recognized. The "
            f"attacker explains {max(self.explained_variance, 0):.0%} of the variance of the "
            f"images; the distance correlation is {self.dependence:.2f}."
        )


def describe_leak(
    parties: Sequence[Party],
    codec: Codec | None,
    auxiliary: Tensor,
    victims: Tensor,
    labels: Tensor,
    *,
    positions_only: bool = False,
) -> LeakReport:
    """Encode the activations of a trained network with ``codec``, attack them, report the result.

    The network is not trained again with this codec. To see the effect of training with it, train
    the network with it first.

    Args:
        parties: the party with the inputs, and the party with the labels.
        codec: the codec of the activations; None for float32.
        auxiliary: the attacker's inputs. They are sent first, through the same channel.
        victims: the inputs to reconstruct.
        labels: the victims' labels, for the accuracy.
        positions_only: attack the positions of the values that were sent, instead of the values.

    A layer that only copies its input hides nothing:

    >>> from torch import nn
    >>> copy = nn.Linear(4, 4, bias=False)
    >>> _ = nn.init.eye_(copy.weight)
    >>> parties = Party("alice", copy), Party("bob", nn.LogSoftmax(1), loss_fn=nn.NLLLoss())
    >>> x = torch.rand(2, 50, 4, generator=torch.Generator().manual_seed(0))
    >>> report = describe_leak(parties, None, x[0], x[1], x[1].argmax(1))
    >>> round(report.explained_variance, 2), report.accuracy
    (1.0, 1.0)
    """
    alice, bob = parties
    channel = Channel({} if codec is None else {"activations": codec})
    observed = overhear(alice, auxiliary, channel, receiver=bob.name)
    held_out = overhear(alice, victims, channel, receiver=bob.name)
    theirs, got = (observed.mask, held_out.mask) if positions_only else (observed.h, held_out.h)
    decoder = train_decoder(theirs, auxiliary, seed=0)
    guess = decoder(got)
    return LeakReport(
        codec="float32" if codec is None else repr(codec),
        accuracy=float(evaluate(parties, victims, labels, through=codec)["accuracy"]),
        nbytes=held_out.nbytes / len(victims),
        explained_variance=explained_variance(guess, victims, decoder.mean_input),
        dependence=max(corrected_distance_correlation(got, victims), 0) ** 0.5,
        guess=guess,
    )


def plot_reconstructions(originals: Tensor, guesses: Mapping[str, Tensor]) -> Axes:
    """The first original images, and below them one row of guesses for each name.

    Images must be square and have one channel; they may be flat. All rows use the range of values
    of the originals.

    >>> ax = plot_reconstructions(torch.rand(12, 16), {"with noise": torch.rand(12, 16)})
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['originals', 'with noise']
    """
    rows = {"originals": originals, **guesses}
    side = round(originals[0].numel() ** 0.5)
    low, high = (float(v) for v in originals[:_NUM_SHOWN].aminmax())
    lines = []
    for images in rows.values():
        tiles = images[:_NUM_SHOWN].detach().reshape(-1, side, side).clamp(low, high)
        tiles = torch.nn.functional.pad(tiles, (0, side // 8 or 1, 0, side // 8 or 1), value=low)
        lines.append(torch.cat(list(tiles), dim=1))
    wall = torch.cat(lines)
    ax = new_axes(width=7.5, height=0.3 + 0.55 * len(rows))
    ax.imshow(wall.cpu().numpy(), cmap="gray_r", vmin=low, vmax=high, interpolation="nearest")
    height = len(lines[0])
    ax.set(xticks=[])
    ax.set_yticks([(row + 0.45) * height for row in range(len(rows))], list(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return describe(ax, f"{_NUM_SHOWN} images in rows: {'; '.join(rows)}")


class LeakPanel:
    """Sliders for bits, noise and fraction, with pictures of what an attacker reconstructs.

    Write it as the last line of a cell. ``parties`` have been trained. Their activations go through
    the codec that the ``controls`` describe, and each setting is attacked anew (`describe_leak`):
    ``report`` says how well. An attack takes seconds, so it runs in a thread, one at a time; of the
    settings that were chosen meanwhile only the last is attacked. ``bits`` and ``sigma`` are the
    first positions of their sliders.
    """

    def __init__(
        self,
        parties: Sequence[Party],
        auxiliary: Tensor,
        victims: Tensor,
        labels: Tensor,
        *,
        bits: int = 32,
        sigma: float = 0.0,
    ):
        ipywidgets = find_ipywidgets()
        self._data = parties, auxiliary, victims, labels
        self.controls = {
            "bits": slider("bits per value (32: float32)", [1, 2, 3, 4, 6, 8, 32, bits], bits),
            "sigma": slider("noise, sigma", [0, 0.1, 0.25, 0.5, 1, 2, 4, 8, sigma], sigma),
            "fraction": slider("fraction kept", [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1], 1, ".0%"),
            "positions_only": ipywidgets.Checkbox(description="attack the positions alone", **LOOK),
        }
        self._sentence = ipywidgets.HTML()
        self._known: dict[str, LeakReport] = {}
        self._attacks = ThreadPoolExecutor(1, "attacks", torch.set_num_threads, (1,))
        self._picture = BelowControls(lambda: self, *self.controls.values(), self._sentence)
        self._wish = self._chosen()
        self._attack(*self._wish)
        for widget in self.controls.values():
            widget.continuous_update = False  # an attack takes longer than a picture
            widget.observe(self._moved, "value")

    @property
    def codec(self) -> Pipeline:
        """The pipeline that the controls show now."""
        bits, sigma, fraction = (self.controls[k].value for k in ("bits", "sigma", "fraction"))
        stages: list[Stage] = [Noise(sigma)] if sigma else []
        stages += [TopK(fraction)] if fraction < 1 else []
        return Pipeline(*stages, *([Quantize(bits)] if bits < 32 else []))

    def _ipython_display_(self) -> None:
        self._picture.show()

    def _chosen(self) -> tuple[str, Pipeline, bool]:
        """The present settings: in words, the codec, and whether positions alone are attacked."""
        codec, positions = self.codec, bool(self.controls["positions_only"].value)
        return f"{codec!r}, positions alone" if positions else repr(codec), codec, positions

    def _moved(self, _change: Any) -> None:
        self._wish = self._chosen()
        if self._wish[0] not in self._known:
            self._say("Attacking ... The picture is still that of the setting before.")
        self._attacks.submit(self._attack, *self._wish)

    def _attack(self, name: str, codec: Pipeline, positions: bool) -> None:
        """Attack, unless that was done before or is no longer wished; show it if it still is."""
        if name not in self._known and name == self._wish[0]:
            parties, *given = self._data
            self._known[name] = describe_leak(parties, codec, *given, positions_only=positions)
        if name == self._wish[0]:
            self.report = self._known[name]
            self._say(self.report.sentence)
            self._picture.rest()

    def _say(self, words: str) -> None:
        self._sentence.value = f"{words}<br><code>{html.escape(self._wish[0])}</code>"

    def png(self) -> Bundle:
        """The originals and the guesses."""
        ax = plot_reconstructions(self._data[2], {"the attacker's guess": self.report.guess})
        return picture(ax.figure.canvas.figure, self.report.sentence)
