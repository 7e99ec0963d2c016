"""What owners of few classes read, alone and together, round by round: the picture of notebook 01b.

Not here: the training, which stands in the notebook. The panel needs ipywidgets, 7.7 or newer.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor

from fltoolkit.plots.style import INK, PAPER, new_axes, picture
from fltoolkit.units import amount
from fltoolkit_course.plots.below_controls import BelowControls, Bundle, slider

TOGETHER = "together"


class OwnersPanel:
    """A table of shades with a slider over the rounds; write it as the last line of a cell.

    A row is one network, a column one class; a field says how many of 100 test samples of the class
    the network gets right.

    Args:
        read: for each network the classes that it reads in the test samples after each round,
            [rounds, samples]. The row "together" is drawn last, away from the others.
        labels: the right classes, [samples].
        nbytes: all bytes that were sent until the end of each round.

    Raises ValueError for a table of another shape.
    """

    def __init__(self, read: Mapping[str, Tensor], labels: Tensor, nbytes: Sequence[int]):
        for name, its in read.items():
            if its.shape != (wanted := (len(nbytes), len(labels))):
                raise ValueError(f"{name!r}: a table of shape {tuple(its.shape)}; give {wanted}")
        self.right = {name: (its == labels).float() for name, its in read.items()}
        self.labels, self.nbytes = labels, nbytes
        self.slider = slider("rounds", [*range(1, len(nbytes) + 1)], len(nbytes))
        self.slider.continuous_update = False
        self._picture = BelowControls(lambda: self, self.slider)
        self.slider.observe(lambda change: self._picture.rest(), "value")

    @property
    def sentence(self) -> str:
        """What is seen, in words."""
        now = {name: right[self._round].mean() for name, right in self.right.items()}
        alone = [share for name, share in now.items() if name != TOGETHER]
        return (
            f"after round {self._round + 1}: alone {100 * sum(alone) / len(alone):.1f} % right "
            f"(mean of {len(alone)}), {TOGETHER} {100 * now[TOGETHER]:.1f} % for "
            f"{amount('nbytes', self.nbytes[self._round])}"
        )

    @property
    def _round(self) -> int:
        return int(self.slider.value) - 1

    def png(self) -> Bundle:
        """The table of shades after the round of the slider."""
        ax, classes = new_axes(6.4, 4.6), self.labels.unique()
        rows = [name for name in self.right if name != TOGETHER] + [TOGETHER]
        places = [*range(len(rows) - 1), len(rows) - 0.5]  # a gap before the last row
        for place, name in zip(places, rows, strict=True):
            right = self.right[name][self._round]
            share = [100 * right[self.labels == each].mean().item() for each in classes]
            extent = (-0.5, len(classes) - 0.5, place + 0.5, place - 0.5)
            ax.imshow([share], cmap="Blues", vmin=0, vmax=100, extent=extent, aspect="auto")
            for column, of_100 in enumerate(share):
                color = PAPER if of_100 > 50 else INK
                ax.text(column, place, f"{of_100:.0f}", ha="center", va="center", color=color)
        ax.set(xlim=(-0.5, len(classes) - 0.5), ylim=(len(rows), -0.5), title=self.sentence)
        ax.set(xlabel="new images of the digit (right, of 100)", ylabel="network of the owner of")
        ax.set_xticks([*range(len(classes))], [str(int(each)) for each in classes])
        ax.set_yticks(places, rows)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.title.set_fontsize(10)
        return picture(ax.figure.canvas.figure, self.sentence)

    def _ipython_display_(self) -> None:
        self._picture.show()
