"""Tables and figure of docs/send_the_data.md, from stored results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from experiments.leakage.settings import CLASS_MEAN, NEAREST, TASKS
from experiments.runs import DOCS, Page, Result, read, share_ci
from experiments.runs import STORED as RESULTS
from experiments.send_data import law, membership
from experiments.send_data.law import short
from experiments.tables import markdown
from fltoolkit_research.intervals import mean_ci

FIGURE = DOCS / "images" / "send_the_data.png"
PAGE = Page(
    "send_the_data",
    "<!-- begin: printed by experiments.send_data --write -->",
    "<!-- end: printed -->",
)
Curve = Sequence[tuple[int, float]]
"""Bytes so far and accuracy, test by test."""
IMAGES = 10_000  # the owners' images of the third axis
PASSES = 10  # of split learning over them


def tables() -> str:
    """All that is printed into the page."""
    return "\n\n".join(
        [
            "### The law: predicted, and measured",
            law.table(),
            "### CIFAR-10 (JPEG copies): what was sent, and what it brought",
            pictures_table(),
            "### On the way: averaging by bytes",
            curve_table(),
            "### Computed, not measured",
            computed_table(),
            "### The third axis: what the receiver gets",
            leak_table(),
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
    named = by_name([*read(RESULTS / "send_data.jsonl").values()])
    rows = sorted(named.items(), key=lambda item: mean(r["nbytes"] for r in item[1]))
    data = mean(r["nbytes_data"] for r in named_owners(named))
    owners = {r["seed"]: r["curve"] for r in named_owners(named)[:3]}
    lines = [
        "| sent | seeds | MB | times the data | accuracy [%] | samples trained on, in thousands "
        "| averaging was as good after [MB] | times fewer bytes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in rows:
        sent, seen = mean(r["nbytes"] for r in runs), mean(map(samples_seen, runs))
        lines.append(
            f"| {name} | {len(runs)} | {short(sent / 1e6)} | {short(sent / data)} "
            f"| {share_ci([100 * r['accuracy'] for r in runs], '.1f')} | {seen / 1e3:,.0f} "
            f"| {' | '.join(as_good(runs, owners))} |"
        )
    return "\n".join(lines)


def as_good(runs: Sequence[Result], owners: Mapping[int, Curve]) -> tuple[str, str]:
    """After how many bytes averaging was as accurate as the sent pictures, seed by seed."""
    if runs[0]["kind"] != "Sent" or not owners:
        return "", ""
    pairs = [(r, first_bytes(owners[r["seed"]], r["accuracy"])) for r in runs]
    if any(nbytes is None for _, nbytes in pairs):
        return "not reached", ""
    reached = [(r["nbytes"], nbytes) for r, nbytes in pairs if nbytes]
    factors = mean_ci([sent / nbytes for sent, nbytes in reached], ".1f")
    return mean_ci([nbytes / 1e6 for _, nbytes in reached], ".3f"), factors


def first_bytes(curve: Curve, accuracy: float) -> int | None:
    """Bytes at the first test of at least this accuracy; None if there was none."""
    return next((nbytes for nbytes, found in curve if found >= accuracy), None)


def named_owners(named: Mapping[str, Sequence[Result]]) -> list[Result]:
    """The runs of averaging."""
    return [r for runs in named.values() for r in runs if r["kind"] == "Together"]


def samples_seen(result: Result) -> int:
    """By all steps of a run together."""
    if result["kind"] == "Sent":
        return int(result["num_sent"] * result["passes"])
    return int(result["rounds"] * 50_000 * int(result["name"].split(" pass")[0].split()[-1]))


def curve_table(goals: Sequence[float] = (0.4, 0.5, 0.55, 0.6, 0.65, 0.68)) -> str:
    """Bytes at which averaging first reached an accuracy, and the pictures that take as many."""
    runs, found = named_owners(by_name([*read(RESULTS / "send_data.jsonl").values()])), []
    for goal in goals:
        first = [first_bytes(run["curve"], goal) for run in runs]
        reached = [n for n in first if n is not None]
        if len(reached) == len(runs):
            each = mean(r["nbytes_data"] for r in runs) / 50_000
            mb = mean_ci([n / 1e6 for n in reached], ".3f")
            found.append([f"{100 * goal:.0f}", mb, f"{mean(reached) / each:,.0f}"])
    return markdown(
        "accuracy [%] | averaging, MB | as many bytes as so many pictures as they are", found
    )


# ------------------------------------------------------------------------------ computed lines

PER_TOKEN = 1.3
"""Compressed bytes of a token: 4.4 characters of English text (GPT-2's tokenizer) of 0.30 B each,
which is what bzip2 makes of Shakespeare here."""


def computed_table() -> str:
    """Cases that cannot be measured here, each from its source."""
    return markdown(
        "case | messages of a round | compressed samples that a round consumes | times the data "
        "| from",
        (
            [case, f"{short(sent / 1e6)} MB", f"{short(data / 1e6)} MB", short(sent / data), words]
            for case, sent, data, words in computed()
        ),
    )


def computed() -> list[tuple[str, float, float, str]]:
    """Case, bytes of a round, compressed bytes that it consumes, and the source in words."""
    stc = law.of_sparse(0.01)
    mobile = 3.5e6  # parameters of MobileNetV2
    phone = 10 * 1000 * 2e6 / 100
    speech = 10 * 10 * 3600 * 4000.0 / 100
    diloco = 512 * 1024 * 500 * PER_TOKEN
    return [
        (
            "phone photographs, float32",
            2 * 10 * mobile * 4,
            phone,
            "ten owners of 1,000 photographs (2 MB each), 100 rounds, 3.5 million parameters "
            "(MobileNetV2, arXiv 1801.04381)",
        ),
        (
            "phone photographs, STC 1 % both ways",
            2 * 10 * mobile * stc / 8,
            phone,
            "the same, 0.091 bits per value. Photographs made smaller, to 10 kB each, would take "
            "200 times fewer bytes: then averaging is at 0.8 times the data",
        ),
        (
            "speech, float32",
            2 * 10 * 10e6 * 4,
            speech,
            "ten owners of 10 hours, Opus at 32 kbit/s (RFC 6716), 100 rounds, 10 million "
            "parameters",
        ),
        (
            "speech, 4 bits both ways",
            2 * 10 * 10e6 / 2,
            speech,
            "the same with 4 bits",
        ),
        (
            "DiLoCo, 150 million parameters, float32",
            2 * 150e6 * 4.0,
            diloco,
            "a worker's 500 steps: \"We use a sequence length of 1,024 tokens and a batch of size "
            '512" (arXiv 2311.08105, section 3.1, read in a conversion to text); 1.3 B per token',
        ),
        (
            "DiLoCo, 1 billion parameters, 4 bits",
            2 * 1e9 / 2,
            diloco,
            "the same steps; 4-bit floats as in arXiv 2501.18512",
        ),
        (
            "DiLoCo, 1 billion parameters, 4 bits, batches of 2 million tokens a worker",
            2 * 1e9 / 2,
            2e6 * 500 * PER_TOKEN,
            "the same with larger batches",
        ),
    ]


# ------------------------------------------------------------------------------ the third axis


class Leak:
    """A point of the figure: accuracy, bytes and leak of all seeds."""

    def __init__(self, name: str, kind: str, runs: Sequence[Mapping[str, float]], words: str = ""):
        self.name, self.kind, self.runs, self.words = name, kind, runs, words

    def each(self, key: str) -> list[float]:
        """A value of all seeds."""
        return [run[key] for run in self.runs]

    def mean(self, key: str) -> float:
        """Its mean."""
        return mean(self.each(key))

    def place(self) -> tuple[float, float]:
        """Where it stands in the figure: times the data, and percent of the variance that leak."""
        return self.mean("times"), 100 * self.mean("leak")


def leaks() -> list[Leak]:
    """Split learning (stored runs of docs/leakage.md), sent images, and owners who average."""
    own = [*read(RESULTS / "send_data_leak.jsonl").values()]
    data = mean(r["nbytes_data"] for r in own)
    found = []
    for name, runs in by_name(own).items():
        if runs[0]["kind"] == "sent":
            rows = [{**_base(r, data), "leak": max(r["explained"], 0.0)} for r in runs]
            found.append(Leak(name, "sent", rows))
            continue
        rows = []
        for r in runs:
            gain = r["single_members"]["explained"] - r["single_strangers"]["explained"]
            rows.append({**_base(r, data), "leak": max(gain, 0.0), "membership": r["membership"]})
        words = _averaged_words(runs)
        found.append(Leak(name, "averaged", rows, words))
    members = {r["key"]: r["membership"] for r in read(membership.PATH).values()}
    task, stored = TASKS["mnist"], read(RESULTS / "leakage.jsonl")
    for setting in membership.settings():  # a run may be stored under another table that has it
        keys = (setting.key(task, seed) for seed in task.seeds)
        group, name = [stored[key] for key in keys if key in stored], setting.name
        rows = [
            {
                "accuracy": r["accuracy"],
                "nbytes": (r["nbytes_up"] + r["nbytes_down"]) * IMAGES * PASSES,
                "leak": r["explained_variance"],
            }
            | ({"membership": members[r["key"]]} if r["key"] in members else {})
            for r in group
        ]
        rows = [{**r, "times": r["nbytes"] / data} for r in rows]
        found.append(Leak(f"split, activations in {name}", "split", rows))
    return sorted(found, key=lambda leak: leak.mean("nbytes"))


def _base(result: Result, data: float) -> dict[str, float]:
    sent = result["nbytes"]
    return {"accuracy": result["accuracy"], "nbytes": sent, "times": sent / data}


def _averaged_words(runs: Sequence[Result]) -> str:
    parts = []
    for name, words in (("single", "an owner's updates"), ("sum", "sums of ten")):
        pair = [
            mean(r[f"{name}_{who}"]["explained"] for r in runs) for who in ("members", "strangers")
        ]
        parts.append(f"{words}: {pair[0]:.3f} of members, {pair[1]:.3f} of strangers")
    return "; ".join(parts)


def leak_table() -> str:
    """Accuracy, bytes, leak, of every row that was run."""
    lines = [
        "| what crosses | seeds | accuracy [%] | MB | times the data | share of the images' "
        "variance that the receiver gets | members recognized (AUC) | guesses from the updates |",
        "|---|---|---|---|---|---|---|---|",
    ]
    runs = [r for r in read(RESULTS / "leakage.jsonl").values() if r["data"] == "mnist"]
    for name in (CLASS_MEAN, NEAREST):
        known = [r["explained_variance"] for r in runs if r["name"] == name]
        lines.append(f"| {name} | {len(known)} |  | 0 | 0 | {share_ci(known, '.3f')} |  |  |")
    for leak in leaks():
        known = "all: it has them" if leak.kind == "sent" else "not measured"
        auc = mean_ci([r["membership"] for r in leak.runs if "membership" in r], ".3f") or known
        lines.append(
            f"| {leak.name} | {len(leak.runs)} "
            f"| {share_ci([100 * a for a in leak.each('accuracy')], '.1f')} "
            f"| {short(leak.mean('nbytes') / 1e6)} | {short(leak.mean('times'))} "
            f"| {share_ci(leak.each('leak'), '.3f', most=1)} | {auc} | {leak.words} |"
        )
    steps = one_step()
    if steps:
        lines += ["", steps]
    return "\n".join(lines)


def one_step() -> str:
    """What a single gradient in float32 says, by the size of its batch."""
    runs = [r for r in read(RESULTS / "send_data_leak.jsonl").values() if "one_step" in r]
    if not runs:
        return ""
    sizes = runs[0]["one_step"]
    parts = []
    for size in sizes:
        who = [mean(r["one_step"][size][k] for r in runs) for k in ("members", "strangers")]
        parts.append(f"{int(size):,} image{'s' * (size != '1')}: {who[0]:.3f} ({who[1]:.3f})")
    return (
        "One gradient of the untrained network, in float32, by the size of its batch (of strangers "
        f"in brackets): {', '.join(parts)}."
    )


def draw(path: Path = FIGURE) -> None:
    """What leaks over bytes, and each mark's accuracy in words."""
    from fltoolkit import plots
    from fltoolkit_research import plots as research_plots

    figure = plots.new_figure(9, 5.4)
    ax = figure.subplots()
    kinds = {
        "sent": ("#b3261e", "o", "images are sent"),
        "split": ("#1565c0", "s", "split learning"),
        "averaged": ("#2e7d32", "^", "ten owners average"),
    }
    found = leaks()
    ax.set(xscale="log", xlim=(0.008, 9000), ylim=(-6, 112))
    named = {
        f"{_brief(leak.name)}: {100 * leak.mean('accuracy'):.0f} %": leak.place() for leak in found
    }
    of_x = "times the data: bytes sent / bytes of all images without loss"
    research_plots.named_points(named, of_x, "share of the images' variance that leaks [%]", ax)
    ax.lines[0].remove()  # its dots; the marks below also say the kind
    for kind, (colour, marker, words) in kinds.items():
        x, y = zip(*(leak.place() for leak in found if leak.kind == kind), strict=True)
        ax.scatter(x, y, s=45, color=colour, marker=marker, label=words, zorder=3)
    ax.axvline(1, color="black", lw=0.8, ls=":", zorder=0)
    ax.set_title("What is sent, what leaks, and beside each name the accuracy")
    ax.legend(loc="center left", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def _brief(name: str) -> str:
    for long in ("images, ", "split, activations in "):
        name = name.removeprefix(long)
    return name.replace("ten owners average", "averaging")
