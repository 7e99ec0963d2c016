"""The figure: bytes up by kind, in the clear and in secret, over bits per value.

python -m experiments.secrecy --figure    # docs/images/secrecy.png, from the stored runs
"""

from collections.abc import Mapping
from pathlib import Path

from experiments.runs import Result, rows_of
from experiments.secrecy.settings import TASKS, settings
from fltoolkit import plots

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "secrecy.png"
KINDS = ("update", "masked", "keys", "shares", "unmasking")
BITS = (2, 4, 8, 24)


def bars(results: Mapping[str, Result], num_clients: int) -> dict[str, dict[str, float]]:
    """Bits per value up, by kind, of each run in the clear or in secret that is stored.

    A client's bytes in a round, of the first seed that there is.
    """
    found = {}
    for setting, runs in rows_of(TASKS["mnist"], settings(TASKS["mnist"]), results):
        names = [f"{b} bits, {way}" for b in BITS for way in ("clear", "secret")]
        if setting.num_clients == num_clients and setting.name in names:
            result = runs[min(runs)]
            up = {kind: result["up"].get(kind, 0) for kind in KINDS}
            found[setting.name] = {k: 8 * v / result["num_values"] for k, v in up.items()}
    return {name: found[name] for name in names if name in found}


def draw(results: Mapping[str, Result], path: Path = PICTURE) -> str:
    """Draw it; returns what it shows, in words."""
    both = {count: bars(results, count) for count in (10, 100)}
    figure = plots.new_figure(8, 1 + 0.3 * sum(map(len, both.values())))
    axes = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [len(b) for b in both.values()]}
    )
    words = []
    for ax, (count, rows) in zip(axes, both.items(), strict=True):
        names, left = [*rows][::-1], [0.0] * len(rows)
        for kind, color in zip(KINDS, plots.COLORS, strict=False):
            wide = [rows[name][kind] for name in names]
            ax.barh(names, wide, left=left, color=color, label=kind)
            left = [a + b for a, b in zip(left, wide, strict=True)]
        for y, end in enumerate(left):
            ax.text(end + 0.3, y, f"{end:.1f}", va="center", fontsize=9)
        ax.axvline(32, color="#767676", linewidth=1, linestyle=":")
        ax.set_title(f"{count} clients", loc="left", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        words += [f"{count} clients, {n}: {e:.1f}" for n, e in zip(names, left, strict=True)]
    axes[0].legend(frameon=False, ncols=5, loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    axes[1].set(xlabel="bits up per value of the model (dotted: float32, plain)", xlim=(0, 35))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    return "; ".join(words)
