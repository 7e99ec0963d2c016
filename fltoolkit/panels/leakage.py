"""Pictures of what leaks: reconstructions beside originals, and a panel that moves bits and noise.

Here: `describe_leak`, which any script can call, its picture, and the panel of notebook 08.
Not here: the attack (the room leakage). The panel needs ipywidgets, 7.7 or newer.
"""

import html
from collections.abc import Mapping, Sequence
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
from fltoolkit.leakage.attacks import explained_variance, overhear, train_decoder
from fltoolkit.leakage.defence import Noise
from fltoolkit.leakage.distance_correlation import corrected_distance_correlation
from fltoolkit.panels._sliders import LOOK, find_ipywidgets, slider
from fltoolkit.party import Party
from fltoolkit.plots.style import describe, new_axes, picture

__all__ = ["LeakPanel", "LeakReport", "describe_leak", "leak_panel", "plot_reconstructions"]


class LeakReport(NamedTuple):
    """What `describe_leak` found."""

    codec: str  # its repr
    accuracy: float  # on the victims
    nbytes: float  # a sample, up
    explained_variance: float  # of the victims' inputs
    dependence: float  # corrected distance correlation of inputs and what arrived, its root
    guess: Tensor  # the reconstructions

    @property
    def sentence(self) -> str:
        """All of it in words."""
        return (
            f"{self.nbytes:,.1f} bytes a sample go up, {self.accuracy:.1%} are recognized. The "
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
    seed: int = 0,
) -> LeakReport:
    """Put ``codec`` on the activations of a trained network, attack it, and say what came of it.

    The network is not trained again with this codec: for that, train it, then call this.

    Args:
        parties: who has the inputs, and who has the labels.
        codec: of the activations; None for float32.
        auxiliary: the attacker's inputs. They are sent first, through the same channel.
        victims: inputs to reconstruct.
        labels: the victims', for the accuracy.
        positions_only: attack which values were sent instead of the values.
        seed: of the attack.
    """
    alice, bob = parties
    channel = Channel({} if codec is None else {"activations": codec})
    heard = overhear(alice, auxiliary, channel, receiver=bob.name)
    held_out = overhear(alice, victims, channel, receiver=bob.name)
    theirs, got = (heard.mask, held_out.mask) if positions_only else (heard.h, held_out.h)
    decoder = train_decoder(theirs, auxiliary, seed=seed)
    guess = decoder(got)
    return LeakReport(
        codec="float32" if codec is None else repr(codec),
        accuracy=float(evaluate(parties, victims, labels, through=codec)["accuracy"]),
        nbytes=held_out.nbytes / len(victims),
        explained_variance=explained_variance(guess, victims, decoder.mean_input),
        dependence=max(corrected_distance_correlation(got, victims), 0) ** 0.5,
        guess=guess,
    )


def plot_reconstructions(
    originals: Tensor, guesses: Mapping[str, Tensor], *, num_shown: int = 12
) -> Axes:
    """The first images, and below them a row of guesses for each name.

    Square images of one channel, flat or not; light and dark are those of the originals.
    """
    if not guesses:
        raise ValueError("no guesses to plot: pass {name: images}")
    rows = {"originals": originals, **guesses}
    side = round(originals[0].numel() ** 0.5)
    if side * side != originals[0].numel() or any(len(x) < num_shown for x in rows.values()):
        raise ValueError(
            f"originals {tuple(originals.shape)}: need {num_shown} square images of one channel, "
            "and as many guesses"
        )
    low, high = (float(v) for v in originals[:num_shown].aminmax())
    lines = []
    for images in rows.values():
        tiles = images[:num_shown].detach().reshape(-1, side, side).clamp(low, high)
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
    return describe(ax, f"{num_shown} images in rows: {'; '.join(rows)}")


class LeakPanel:
    """The panel of `leak_panel`: ``controls`` by name, and the ``report`` they now give."""

    def __init__(
        self,
        parties: Sequence[Party],
        auxiliary: Tensor,
        victims: Tensor,
        labels: Tensor,
        *,
        bits: int = 32,
        sigma: float = 0.0,
        fraction: float = 1.0,
        positions_only: bool = False,
    ):
        ipywidgets = find_ipywidgets("panels.describe_leak(parties, codec, ...)")
        self._data = (parties, auxiliary, victims, labels)
        self.controls = {
            "bits": slider("bits a value (32: float32)", [1, 2, 3, 4, 6, 8, 32, bits], bits),
            "sigma": slider("noise, sigma", [0, 0.1, 0.25, 0.5, 1, 2, 4, 8, sigma], sigma),
            "fraction": slider(
                "fraction kept", [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, fraction], fraction, ".0%"
            ),
            "positions_only": ipywidgets.Checkbox(
                value=positions_only, description="attack the positions alone", **LOOK
            ),
        }
        self._sentence = ipywidgets.HTML()
        self._controls = ipywidgets.VBox([*self.controls.values(), self._sentence])
        self._known: dict[str, LeakReport] = {}
        self._handle: Any = None
        self._describe()
        for widget in self.controls.values():
            widget.continuous_update = False  # an attack takes longer than a picture
            widget.observe(self._moved, "value")

    @property
    def codec(self) -> Pipeline:
        """The pipeline as the controls stand."""
        bits, sigma, fraction = (self.controls[k].value for k in ("bits", "sigma", "fraction"))
        stages: list[Stage] = [Noise(sigma)] if sigma else []
        stages += [TopK(fraction)] if fraction < 1 else []
        return Pipeline(*stages, *([Quantize(bits)] if bits < 32 else []))

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self._controls)
        data, metadata = self._png()
        self._handle = display(data, raw=True, metadata=metadata, display_id=True)

    def _moved(self, _change: Any) -> None:
        self._describe()
        if self._handle is not None:
            data, metadata = self._png()
            self._handle.update(data, raw=True, metadata=metadata)

    def _describe(self) -> None:
        """Attack, unless it was done before, and say it."""
        positions = self.controls["positions_only"].value
        parties, auxiliary, victims, labels = self._data
        name = f"{self.codec!r}, positions alone" if positions else repr(self.codec)
        code = f"<br><code>{html.escape(name)}</code>"
        if name not in self._known:
            self._sentence.value = f"The attacker is learning ...{code}"
            self._known[name] = describe_leak(
                parties, self.codec, auxiliary, victims, labels, positions_only=positions
            )
        self.report = self._known[name]
        self._sentence.value = f"{self.report.sentence}{code}"

    def _png(self) -> tuple[dict[str, str], dict[str, Any]]:
        ax = plot_reconstructions(self._data[2], {"the attacker's guess": self.report.guess})
        return picture(ax.figure.canvas.figure, self.report.sentence)


def leak_panel(
    parties: Sequence[Party], auxiliary: Tensor, victims: Tensor, labels: Tensor, **settings: Any
) -> LeakPanel:
    """What can be seen through a codec? Sliders for bits, noise and fraction, with pictures.

    Display it as the last line of a cell. ``parties`` are trained; their activations go through the
    codec that the sliders make, and each setting is attacked anew: see `describe_leak`.
    ``settings`` are where the controls start: ``leak_panel(..., bits=4, sigma=0.5)``.
    """
    return LeakPanel(parties, auxiliary, victims, labels, **settings)
