"""Tables of docs/send_the_data.md, from stored results."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from experiments.leakage.__main__ import RESULTS as LEAKAGE
from experiments.leakage.settings import CLASS_MEAN, NEAREST, TASKS, activations
from experiments.runs import STORED, Page, Result, read, share_ci
from experiments.send_data import law, leak
from experiments.send_data.law import short
from experiments.tables import markdown
from fltoolkit_research.intervals import mean_ci

RESULTS = STORED / "send_data.jsonl"
PAGE = Page(
    "send_the_data",
    "<!-- begin: printed by experiments.send_data --write -->",
    "<!-- end: printed -->",
)
Curve = Sequence[tuple[int, float]]
"""Bytes so far and accuracy, test by test."""
SPLIT = ("float32", "8 bits", "2 bits", "top-k 10%")
"""The runs of docs/leakage.md that stand in the table of the third axis."""


def tables() -> str:
    """All that is printed into the page."""
    return "\n\n".join(
        [
            "### The law: predicted, and measured",
            law.table(),
            "### CIFAR-10 (JPEG copies): what was sent, and what it brought",
            pictures_table(),
            "### The third axis: what the receiver gets",
            leak_table(),
            one_step(),
        ]
    )


# ---------------------------------------------------------------------------------- CIFAR-10


def by_name(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results of all seeds of each setting, in the order of the file."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result["name"], []).append(result)
    return found


def pictures_table() -> str:
    """Every setting that was run, by bytes."""
    named = by_name([*read(RESULTS).values()])
    together = [r for runs in named.values() for r in runs if r["kind"] == "Together"]
    data = mean(r["nbytes_data"] for r in together)
    curves = {r["seed"]: r["curve"] for r in together}
    found = []
    for name, runs in sorted(named.items(), key=lambda item: mean(r["nbytes"] for r in item[1])):
        sent, seen = mean(r["nbytes"] for r in runs), mean(map(samples_seen, runs))
        right = share_ci([100 * r["accuracy"] for r in runs], ".1f")
        cells = [name, len(runs), short(sent / 1e6), short(sent / data), right]
        found.append([*cells, f"{seen / 1e3:,.0f}", *as_good(runs, curves)])
    return markdown(
        "sent | seeds | MB | times the data | accuracy [%] | samples trained on, in thousands "
        "| averaging was as good after [MB] | times fewer bytes",
        found,
    )


def as_good(runs: Sequence[Result], curves: Mapping[int, Curve]) -> tuple[str, str]:
    """After how many bytes averaging was as accurate as the sent pictures, seed by seed."""
    if runs[0]["kind"] != "Sent":
        return "", ""
    pairs = []
    for r in runs:
        tests = (nbytes for nbytes, found in curves[r["seed"]] if found >= r["accuracy"])
        pairs.append((r, next(tests, None)))
    if any(nbytes is None for _, nbytes in pairs):
        return "not reached", ""
    reached = [(r["nbytes"], nbytes) for r, nbytes in pairs if nbytes]
    factors = mean_ci([sent / nbytes for sent, nbytes in reached], ".1f")
    return mean_ci([nbytes / 1e6 for _, nbytes in reached], ".3f"), factors


def samples_seen(result: Result) -> int:
    """By all steps of a run together."""
    if result["kind"] == "Sent":
        return int(result["num_sent"] * result["passes"])
    return int(result["rounds"] * 50_000 * int(result["name"].split(" pass")[0].split()[-1]))


# ------------------------------------------------------------------------------ the third axis


def leak_table() -> str:
    """Accuracy, bytes, leak, of every row that was run; those with few bytes first."""
    found = []
    known = [r for r in read(LEAKAGE).values() if r["data"] == "mnist"]
    for name in (CLASS_MEAN, NEAREST):
        each = [r["explained_variance"] for r in known if r["name"] == name]
        found.append([name, len(each), "", 0, 0, share_ci(each, ".3f"), "", ""])
    images = [*read(leak.RESULTS).values()]
    data = mean(r["nbytes_data"] for r in images)
    rows = [*_sent_and_averaged(images), *_split()]
    for name, runs, leaks, more in sorted(rows, key=lambda row: mean(r["nbytes"] for r in row[1])):
        sent = mean(r["nbytes"] for r in runs)
        right = share_ci([100 * r["accuracy"] for r in runs], ".1f")
        cells = [name, len(runs), right, short(sent / 1e6), short(sent / data)]
        found.append([*cells, share_ci(leaks, ".3f", most=1), *more])
    return markdown(
        "what crosses | seeds | accuracy [%] | MB | times the data | share of the images' "
        "variance that the receiver gets | members recognized (AUC) | guesses from the updates",
        found,
    )


Leak = tuple[str, Sequence[Result], list[float], tuple[str, str]]
"""A row: its name, its runs, what leaks by seed, and its last two cells."""


def _sent_and_averaged(images: Sequence[Result]) -> Iterator[Leak]:
    """Images that are sent, and owners who average."""
    for name, runs in by_name(images).items():
        if runs[0]["kind"] == "sent":
            leaks = [max(r["explained"], 0.0) for r in runs]
            yield name, runs, leaks, ("all: it has them", "")
            continue
        gains = (
            r["single_members"]["explained"] - r["single_strangers"]["explained"] for r in runs
        )
        words = []
        for what, of in (("single", "an owner's updates"), ("sum", "sums of ten")):
            mine, others = (
                mean(r[f"{what}_{who}"]["explained"] for r in runs)
                for who in ("members", "strangers")
            )
            words.append(f"{of}: {mine:.3f} of members, {others:.3f} of strangers")
        auc = mean_ci([r["membership"] for r in runs], ".3f")
        yield name, runs, [max(gain, 0.0) for gain in gains], (auc, "; ".join(words))


def _split() -> Iterator[Leak]:
    """Split learning, of docs/leakage.md, whose bytes are of a sample in a pass."""
    task, stored = TASKS["mnist"], read(LEAKAGE)
    for setting in activations():
        if setting.name in SPLIT:
            keys = (setting.key(task, seed) for seed in task.seeds)
            runs = [
                {**r, "nbytes": (r["nbytes_up"] + r["nbytes_down"]) * task.num_own * task.epochs}
                for key in keys
                if (r := stored.get(key))
            ]
            leaks = [r["explained_variance"] for r in runs]
            yield f"split, activations in {setting.name}", runs, leaks, ("not measured", "")


def one_step() -> str:
    """What a single gradient in float32 says, by the size of its batch."""
    runs = [r for r in read(leak.RESULTS).values() if "one_step" in r]
    parts = []
    for size in runs[0]["one_step"]:
        who = [mean(r["one_step"][size][k] for r in runs) for k in ("members", "strangers")]
        parts.append(f"{int(size):,} image{'s' * (size != '1')}: {who[0]:.3f} ({who[1]:.3f})")
    return (
        "One gradient of the untrained network, in float32, by the size of its batch (of strangers "
        f"in brackets): {', '.join(parts)}."
    )
