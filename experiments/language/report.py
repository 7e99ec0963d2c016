"""Tables of the runs that are there, as Markdown, and the page that holds them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import mean

from experiments.language import null_results, pooled
from experiments.language.data_parallel import LONGER, LONGEST, Setting
from experiments.language.task import Task
from experiments.runs import Page, Row, Runs, gain_of, mean_nbytes, nats_above, read
from experiments.tables import markdown
from fltoolkit_research.intervals import mean_ci

PAGE = Page(
    "language_results",
    "<!-- tables: python -m experiments.language --write -->",
    "<!-- end of tables -->",
)
REFERENCE = "AdamW, every step, float32"
OWN = {  # the same optimizer, every step, float32
    "AdamW": REFERENCE,
    "Muon": "Muon, every step, float32",
    "SGD": "SGD, every step, float32",
}
MEAN_10, PAIRS = "local AdamW, H = 10, mean, float32", "NoLoCo, H = 10, pairs, float32"
MOMENTS = (
    "DES-LOC, H = 10, moments every 30 and 60, float32",
    "Local Adam, H = 10, moments every 10, float32",
)
HALF_RATE = "AdamW, every step, float32, half the rate, 5,400 steps"
SPARTA = "SPARTA, 0.5 % of the values at every step, float32"
WHOLE_TEXT = "AdamW, all tokens on one worker"
PILOT = "ranks by a pilot's entropy"
COSTS = (
    ("Muon, H = 10, float32", OWN["Muon"]),
    ("Muon, every step, 2 bits", OWN["Muon"]),
    ("EF21-Muon, every step, 2 bits", OWN["Muon"]),
    ("EF21-Muon, every step, 2 bits", "Muon, every step, 2 bits"),
    ("EF21-Muon, every step, 2 bits", "EF21-Muon, every step, float32"),
    ("EF21-Muon, every step, float32", OWN["Muon"]),
    ("Muon, H = 10, 2 bits", "Muon, H = 10, float32"),
    ("AdamW, every step, bfloat16", REFERENCE),
    ("DiLoCo, H = 10, float32", MEAN_10),
    (PAIRS, "DiLoCo, H = 10, float32"),
    (PAIRS, MEAN_10),
    *((name, MEAN_10) for name in MOMENTS),
    MOMENTS,
    (SPARTA, "AdamW, one worker alone"),
    (SPARTA, MEAN_10),
    ("Dion, rank 4, 8 bits", OWN["Muon"]),
    ("Dion, rank 4, 8 bits", "PowerSGD, rank 4, 8 bits, AdamW"),
    ("PowerSGD, rank 4, 8 bits, AdamW", "AdamW, one worker alone"),
    *(
        (f"PowerSGD, {name}, 8 bits", "PowerSGD, rank 4, 8 bits, AdamW")
        for name in ("rank by entropy", PILOT, "ranks falling from 7 to 1")
    ),
    *(
        (f"PowerSGD, {PILOT}, 8 bits", f"PowerSGD, {name}, 8 bits")
        for name in ("the pilot's ranks backwards", "ranks falling from 7 to 1")
    ),
    ("signs, every step, AdamW", "AdamW, one worker alone"),
    ("DiLoCo, H = 10, float32", "AdamW, one worker alone"),
    ("Muon, one worker alone", "MuLoCo, H = 10, 2 bits"),
    ("MuLoCo, H = 10, 2 bits", "Muon, H = 10, 2 bits"),
    ("MuLoCo, H = 10, 2 bits, momentum begun anew after 5 rounds", "MuLoCo, H = 10, 2 bits"),
    ("MuLoCo, H = 10, 2 bits, momentum begun anew after 5 rounds", "Muon, H = 10, 2 bits"),
    ("Muon, H = 10, 2 bits, moving average outside", "Muon, H = 10, 2 bits"),
    *(
        ("Muon, H = 65, 2 bits, 5,400 steps", f"Muon, {name}, 5,400 steps")
        for name in ("H = 10, top 2 %, 2 bits", "one worker alone")
    ),
    (HALF_RATE, "AdamW, every step, float32, 5,400 steps"),
    ("Muon, H = 65, 2 bits, 5,400 steps", HALF_RATE),
    *(
        (f"{name}, 5,400 steps", f"Muon, {other}, 5,400 steps")
        for name in (
            "DiLoCo, H = 30, float32",
            "MuLoCo, H = 30, 2 bits",
            "SparseLoCo, H = 30, top 2 %, 2 bits",
        )
        for other in ("H = 30, 2 bits", "one worker alone")
    ),
    (WHOLE_TEXT, REFERENCE),
)
SEND_TEXT = "send the text"


def report(rows: Sequence[Row]) -> str:
    """Workers that train one model: a table for each group, and what costs what."""
    if not rows:
        return "no runs yet"
    num_runs = sum(len(runs) for _, runs in rows)
    rows = with_text(rows)
    first = next(iter(rows[0][1].values()))
    blocks = [
        f"{num_runs} runs: {first['text']}, {first['workers']} workers x batch "
        f"{first['batch_size']} x {first['context']} characters, {first['steps']} steps, a GPT of "
        f"{first['layers']} layers of width {first['width']}."
    ]
    for group in dict.fromkeys(setting.group for setting, _ in rows):
        mine = [row for row in rows if row[0].group == group]
        blocks += [f"### {group[0].upper()}{group[1:]}", _table(mine, rows)]
    return "\n\n".join([*blocks, "### What costs what", what_costs(rows)])


def with_text(rows: Sequence[Row]) -> list[Row]:
    """The rows, those of the null models with the bytes of the text where a worker has all of it.

    Whoever has the whole text can compute at home what all workers compute together at every step
    in float32. So a row of its own has that run's loss and the bytes of the text; see pooled.
    """
    rows = with_owners(rows)
    sent = {result["seed"]: result for result in read(pooled.PATH).values()}
    known = [pooled.holding_all(row) for row in rows]
    return [*known, *_sent_rows(rows, sent)] if sent else known


def with_owners(rows: Sequence[Row]) -> list[Row]:
    """The rows, each worker alone as two rows of an optimizer: their mean, and the worst.

    At the end of these null models stands what is known without any training.
    """
    owners: dict[str, list[Row]] = {}
    for setting, runs in rows:
        if setting.workers == 1 and setting.steps is None and not setting.whole_text:
            owners.setdefault(setting.optimizer, []).append((setting, runs))
    found = [row for row in rows if not row[0].worker]
    for optimizer, each in owners.items():
        seeds = [seed for seed in each[0][1] if all(seed in runs for _, runs in each)]
        if len(each) < 2 or not seeds:
            continue
        for name, of in ((null_results.MEAN, mean), (null_results.WORST, max)):
            runs = {
                s: {**each[0][1][s], "nats": of([r[s]["nats"] for _, r in each])} for s in seeds
            }
            found.append((replace(each[0][0], name=f"{optimizer}, {name}"), runs))
    (like, first) = next(iter(owners.values()))[0] if owners else rows[0]
    for name, nothing in null_results.rows("data parallel", Task.text).items():
        runs = {s: {**first[s], "nats": r["nats"]} for s, r in nothing.items() if s in first}
        if runs and owners:
            found.append((replace(like, name=name), runs))
    return found


def _sent_rows(rows: Sequence[Row], sent: Mapping[int, Mapping[str, int]]) -> Iterator[Row]:
    for setting, runs in rows:
        bare, _, steps = setting.name.removesuffix(" steps").rpartition(", ")
        longer = setting.name.endswith(" steps") and bare in OWN.values()
        known = longer or setting.name in OWN.values()
        if not known or setting.by_role or setting.optimizer == "SGD":
            continue
        title = f"text to one worker, then {setting.optimizer}" + f", {steps} steps" * longer
        yield (
            replace(setting, name=title, group=SEND_TEXT, claim=""),
            pooled.with_bytes(runs, sent),
        )


def times_the_data(runs: Runs) -> str:
    """Bytes over those of the training text in one piece."""
    data = {result["seed"]: result["data"] for result in read(pooled.PATH).values()}
    return null_results.times(runs, data)


def _table(rows: Sequence[Row], every: Sequence[Row]) -> str:
    found = []
    for setting, runs in rows:
        reference, own = references(setting, every)
        found.append(
            [
                *(setting.name, len(runs), mean_ci(nats(runs), ".3f")),
                *(_gain(runs, reference), _gain(runs, own)),
                *(_megabytes(runs), times_the_data(runs), _times(runs, reference)),
                *(_times(runs, reference, "uplink"), setting.claim),
            ]
        )
    return markdown(
        "method | seeds | nats per character | minus AdamW | minus its own float32 | MB in all "
        "| times the data | times fewer: in all | times fewer: uplink only | its paper says",
        found,
    )


def what_costs(rows: Sequence[Row]) -> str:
    """Settings beside those that differ in one thing, paired by seed."""
    found = []
    for name, reference in COSTS:
        runs, other = runs_of(rows, name), runs_of(rows, reference)
        if differences := nats_above(runs, other):
            sent = mean_nbytes(runs), mean_nbytes(other)
            times = f"{sent[1] / sent[0]:,.1f}" if all(sent) else ""
            words = mean_ci(differences, "+.3f")
            found.append([name, reference, len(differences), words, times])
    table = markdown(
        "this | in place of this | seeds | difference [nats] | times fewer bytes", found
    )
    return f"(Times the data and null rows stand in the tables above.)\n\n{table}"


def references(setting: Setting, rows: Sequence[Row]) -> tuple[Runs, Runs]:
    """AdamW, and the setting's own optimizer, at every step in float32, all else alike.

    As long as the setting's run, and of workers with speakers of their own if it has such.
    """
    end = f", {setting.steps:,} steps" if setting.steps in (LONGER, LONGEST) else ""
    end += ", by role" * setting.by_role
    return runs_of(rows, REFERENCE + end), runs_of(rows, OWN[setting.optimizer] + end)


def runs_of(rows: Sequence[Row], name: str) -> Runs:
    """The runs of the setting of this name; none if there are none."""
    return next((runs for setting, runs in rows if setting.name == name), {})


def nats(runs: Runs) -> list[float]:
    """Of each seed."""
    return [result["nats"] for result in runs.values()]


def _megabytes(runs: Runs) -> str:
    """With a digit more where there is little."""
    megabytes = mean_nbytes(runs) / 1e6
    return f"{megabytes:,.1f}" if megabytes >= 2 or not megabytes else f"{megabytes:.2f}"


def _gain(runs: Runs, reference: Runs) -> str:
    return gain_of(runs, reference, "+.3f", "nats", 1.0)


def _times(runs: Runs, reference: Runs, what: str = "nbytes") -> str:
    """How many times fewer bytes than the reference; empty without bytes or a reference."""
    sent = mean(result[what] for result in runs.values())
    if not sent or not reference:
        return ""
    return f"{mean(result[what] for result in reference.values()) / sent:,.1f}"
