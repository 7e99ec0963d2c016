"""The stored results as data files for the figures of docs/explore.

    python tools/export_explore.py            # from experiments/results and explore_tensors.json
    python tools/export_explore.py --record   # first train on digits and record the tensors anew

Each file of docs/explore/data is a script of one line, ``explore.data.NAME = {JSON}``: a page that
is opened from a folder (file://) may load scripts, but may not fetch JSON. Nothing is trained
without ``--record``. A test exports again and compares, so files and stored runs cannot differ.
"""

import argparse
import ast
import base64
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from statistics import mean, mode
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import fltoolkit as flt
from experiments import runs
from experiments.async_states import settings as async_states
from experiments.async_states.__main__ import RESULTS as SILENCE
from experiments.fedavg_results import null_rows as fedavg_null
from experiments.fedavg_results import settings as fedavg
from experiments.fedavg_results.__main__ import RESULTS as ROUNDS
from experiments.fedavg_results.report import effort as effort_of_rounds
from experiments.language import data_parallel, finetune
from experiments.language import pooled as language_pooled
from experiments.language import split as language_split
from experiments.language.__main__ import RESULTS as WORKERS
from experiments.language.report import OWN, REFERENCE
from experiments.language.task import Task
from experiments.leakage import settings as leakage
from experiments.leakage.__main__ import RESULTS as LEAKS
from experiments.leakage.report import rows_of as leakage_rows_of
from experiments.null_rows import COMMONEST, ONE_BIT, SEND, UNTRAINED, data_nbytes
from experiments.pareto import report as pareto_report
from experiments.pareto import settings as pareto
from fltoolkit import codecs
from fltoolkit.codecs import Quantize, TopK, num_kept
from fltoolkit.data.datasets import PIXEL_STATISTICS
from fltoolkit.split import gates
from fltoolkit_research import NULL_MODELS, Experiment, pooled, secrecy
from fltoolkit_research import codecs as more_codecs
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.intervals import interval

ROOT = Path(__file__).parents[1]
EXPLORE = ROOT / "docs" / "explore"
TENSORS = Path(__file__).with_name("explore_tensors.json")
NUM_TEST = {"digits": 1_000_000, "mnist": 10_000}  # accuracies are stored as so many right of these
PARTITION_WORDS = {"IID": "IID: all alike", "non-IID": "non-IID: Dirichlet(0.3)"}

NULL_ROW = "null"
STORED_BESIDE = {  # drawn beside the training of the playground
    *("SplitNN, float32", "SplitNN, 4 bits all ways", "FedAvg, float32", "3 bits + EF both ways"),
    *("STC 1 % both ways", "send the data", "send the data, 1 bit per pixel"),
}

BITS: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 32)  # stops of the sliders; 32: float32 as it is
FRACTIONS: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # 1.0: all are kept


def line(name: str, value: Any) -> str:
    """One data file."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"explore.data.{name} = {text};\n"


# ------------------------------------------------------------------------------- the one plot


PASSES = "A round of a null row is one pass over its samples."


@cache
def the_one_plot(*tasks: str) -> dict[str, Any]:
    """Every run of `experiments.pareto`, by task and method; of these tasks, or of its tables."""
    parts = pareto_report.parts_of(pareto_report.read_kept(), tasks or ("mnist", "digits"))
    return {
        "tasks": [
            {
                "data": data,
                "partition": words,
                "partition_words": PARTITION_WORDS[words],
                "num_test": NUM_TEST[pareto.TASKS[data].data],
                "target": pareto_report.TARGETS[pareto.TASKS[data].data],
                "data_nbytes": data_nbytes(pareto.TASKS[data].data),
                "settings": f"{pareto_report.settings_of(data, results)} Ten clients, one small "
                f"network (784 or 64 to 128 to 640 to 10), plain SGD. {PASSES}",
                "methods": methods_of(results, NUM_TEST[pareto.TASKS[data].data]),
            }
            for (data, words), results in parts.items()
        ]
    }


def methods_of(results: Sequence[Any], num_test: int) -> list[dict[str, Any]]:
    """Methods with their runs; without those that train nothing, which are far below a figure."""
    methods: dict[str, dict[str, Any]] = {}
    for result in results:
        e = result.experiment
        federated, null = e.protocol.name == "fedavg", pareto_report.is_null(result)
        if e.protocol.name == "nothing":
            continue
        baseline = pareto.BASELINE_FEDERATED if federated else pareto.BASELINE_SPLIT
        method = {
            "name": e.name,
            "family": NULL_ROW if null else "federated" if federated else "split",
            "baseline": "" if null else baseline,
            "code": code(e),
            "runs": [],
        }
        methods.setdefault(e.name, method)["runs"].append(one_run(result, num_test))
    return [packed(method) for method in methods.values()]


def packed(method: dict[str, Any]) -> dict[str, Any]:
    """The method with one ledger, the mean of its runs, and the bytes of curves as differences."""
    ledgers = [run.pop("ledger") for run in method["runs"]]
    method["ledger"] = [
        [*rows[0][:2], *(whole_mean(column) for column in list(zip(*rows, strict=True))[2:])]
        for rows in zip(*ledgers, strict=True)
    ]
    for run in method["runs"]:
        before = 0
        for point in run["curve"]:
            point[0], before = point[0] - before, point[0]
    return method


def whole_mean(sizes: Sequence[int | None]) -> int | None:
    """The mean of sizes, if all of them are known."""
    known = [size for size in sizes if size is not None]
    return round(mean(known)) if len(known) == len(sizes) else None


def three_sizes(record: Mapping[str, Any]) -> list[list[Any]]:
    """Kind, direction, nominal, real and entropy bytes; results of 0.2 have all three sizes."""
    rows = []
    for key, real in record.items():
        kind, _, way = key.removeprefix("nbytes_").rpartition("_")
        if key.startswith("nbytes_") and kind:  # and not the total of a direction
            nominal, entropy = (
                record.get(f"{size}_{kind}_{way}") for size in ("nominal", "entropy")
            )
            rows.append([kind, way, nominal, real, entropy])
    return rows


def one_run(result: Any, num_test: int) -> dict[str, Any]:
    """What a run brought and cost. ``curve`` holds [bytes, correct test samples] pairs.

    Who sends all data computes
    nothing; what owners compute alone is not known.
    """
    last = result.history[-1]
    curve = [[r["nbytes"], round(r["accuracy"] * num_test)] for r in result.history]
    return {
        "seed": result.experiment.seed,
        "nbytes": last["nbytes"],
        "up": last["nbytes_up"],
        "down": last["nbytes_down"],
        "waits": last["num_waits"],
        "rounds": last["round"],
        "flops": last.get("client_flops", 0),
        "curve": curve,
        "ledger": three_sizes(last),
    }


def modules_of(value: Any) -> set[str]:
    """The modules outside of the package and torch that define what a value is made of."""
    if isinstance(value, partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, Mapping):
        inner = [*value.values()]
    elif isinstance(value, list | tuple):
        inner = [*value]
    elif inspect.isroutine(value) or isinstance(value, type):
        home = getattr(value, "__module__", "") or ""
        outside = home.split(".")[0] not in ("fltoolkit", "fltoolkit_research", "torch", "builtins")
        return {home} if outside else set()
    else:
        inner = [type(value), *getattr(value, "__dict__", {}).values()]
    return set().union(*map(modules_of, inner))


def code(experiment: Experiment) -> str:
    """Python that runs an experiment, with what is said by default left out of its codecs.

    Its name is left out as well: the page shows it above the code.
    """
    experiment = replace(experiment, name="")
    values = experiment.to_dict()
    for key in [key for key in ("codecs", "settings") if key in values]:
        texts = values[key]
        values |= {key: {k: short(v) if isinstance(v, str) else v for k, v in texts.items()}}
    values |= {"gate": short(values["gate"])} if "gate" in values else {}
    own = sorted(modules_of(experiment.codecs) | modules_of(experiment.settings))
    if Experiment.from_dict(values, pareto_report.MODULES).key != experiment.key:
        raise ValueError(f"{experiment.title}: its short form is another experiment: {values}")
    values = {k: v.replace("'", "`") if k == "data" else v for k, v in values.items()}  # in a text
    lines, null = [], experiment.protocol.name in NULL_MODELS and not own
    for key, value in values.items():
        name = f"{key!r}: " if own else f"{key}="
        if key == "protocol" and null:  # a reader sees where the null rows are
            lines.append(f"    {name}NULL_MODELS[{value!r}],\n")
        elif isinstance(value, dict) and value:
            inner = "".join(f"        {name!r}: {each!r},\n" for name, each in value.items())
            lines.append(f"    {name}{{\n{inner}    }},\n")
        else:
            lines.append(f"    {name}{value!r},\n")
    if own:
        imports = "".join(f"import {each}\n" for each in own)
        return (
            (
                f"{imports}from fltoolkit_research import Experiment, run\n\n"
                f"experiment = Experiment.from_dict({{\n{''.join(lines)}}}, "
                f"modules=[{', '.join(own)}])\nprint(run(experiment)[-1])\n"
            )
            .replace("'", '"')
            .replace("`", "'")
        )
    return (
        (
            f"from fltoolkit_research import {'NULL_MODELS, ' if null else ''}Experiment, run\n\n"
            f"experiment = Experiment(\n{''.join(lines)})\nprint(run(experiment)[-1])\n"
        )
        .replace("'", '"')
        .replace("`", "'")
    )


def short(text: str) -> str:
    """The text of a codec or a gate without the arguments that have their default value."""

    class Shorten(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.Call:
            self.generic_visit(node)
            name = ast.unparse(node.func)
            ours = (codecs, more_codecs, gates, pooled, secrecy)
            rooms = (*ours, *pareto_report.MODULES)
            known = inspect.signature(next(getattr(r, name) for r in rooms if hasattr(r, name)))
            node.keywords = [
                each
                for each in node.keywords
                if ast.unparse(each.value) != repr(known.parameters[str(each.arg)].default)
            ]
            return node

    return ast.unparse(Shorten().visit(ast.parse(text, mode="eval")))


# ------------------------------------------------------------- federated averaging, by the round

ROUND_PARTS = {  # of the experiment, by what the page's control says; and its word for null rows
    "IID": ("IID", "IID: all alike", "iid"),
    "non-IID": ("two shards per client", "non-IID: two shards of the sorted samples", "shards"),
}


def rounds_of_averaging() -> dict[str, Any]:
    """The confirmed runs of `experiments.fedavg_results`, with an evaluation after each round."""
    task = fedavg.Task()
    rows = runs.rows_of(task, fedavg.settings(), runs.read(ROUNDS))
    tasks = []
    for partition, (part, words, null_part) in ROUND_PARTS.items():
        mine = [(setting, found) for setting, found in rows if setting.part == part]
        tasks.append(
            {
                "data": "fedavg",
                "partition": partition,
                "partition_words": words,
                "num_test": NUM_TEST["mnist"],
                "target": 0.97,
                "data_nbytes": data_nbytes("mnist"),
                "settings": f"2NN (784 to 200 to 200 to 10). {effort_of_rounds(mine)} {PASSES}",
                "methods": [
                    packed(
                        {
                            "name": setting.name,
                            "family": "federated",
                            "baseline": fedavg.FLOAT32,
                            "code": command("fedavg_results", f"{part}: {setting.name}"),
                            "runs": [one_averaging(run) for run in found.values()],
                        }
                    )
                    for setting, found in mine
                ]
                + methods_of(fedavg_null.results(null_part), NUM_TEST["mnist"]),
            }
        )
    return {"tasks": tasks}


def one_averaging(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run of federated averaging; its ``value`` is a mean of rounds, and not the last one."""
    up, down = run["nbytes_up"], run["nbytes_down"]
    return {
        "seed": run["seed"],
        "nbytes": run["nbytes"],
        "up": up,
        "down": down,
        "waits": 2 * len(run["curve"]),  # clients side by side: the model down, the updates up
        "rounds": len(run["curve"]),
        "value": run["accuracy"],
        "curve": [[u + d, round(a * NUM_TEST["mnist"])] for u, d, a in run["curve"]],
        "ledger": ledger({"model": ("down", down), "update": ("up", up)}),
    }


def ledger(sent: Mapping[str, tuple[str, float]]) -> list[list[Any]]:
    """Rows as `one_run` has them, where nobody weighed anything but the messages."""
    return [[kind, way, None, nbytes, None] for kind, (way, nbytes) in sent.items() if nbytes]


def command(experiment: str, only: str, *options: str) -> str:
    """The line of a shell that runs what is missing of one setting."""
    return f'python -m experiments.{experiment} {" ".join((*options, "--only"))} "{only}"'


# ------------------------------------------------------------------------------ language models

FLOAT32, FULL = "float32", "full, float32"
NULL = "null model"
FAMILIES = {
    "every step": "a message after every step: gradients, or what stands for them",
    "local steps": "some steps alone, and then a message: what has changed since the last one",
    NULL: "a null model: whoever sends something should do better",
    language_split.PLAIN: "activations up and gradients down, in few bits",
    language_split.CHANGES: "what has changed since the other side saw it, or only what moved",
    language_split.SILENCE: "in some steps nothing is sent: asynchronous states",
    language_split.RANK: "a few values of each position, or a subspace",
    language_split.U: "both ends of the network stay with the owner of the text: no label is sent",
    finetune.FULL: "all weights learn, and their changes travel",
    finetune.ADAPTERS: "weights are frozen; thin matrices beside them learn and travel",
    finetune.SOME: "only some of the weights learn, and their changes travel",
}


def language() -> dict[str, Any]:
    """Data parallel, split and fine-tuning: nats, and the bytes of each way."""
    return {"tasks": [task for part in (workers, cut, owners) for task in part()]}


def language_task(key: str, group: str, words: str, settings: str, rows: Any) -> dict[str, Any]:
    """A choice of the page; ``rows`` are (method without runs, its runs). None have no nats."""
    methods = [packed({**about, "runs": found}) for about, found in rows if found]
    like = [m for m in methods if m["baseline"] == m["name"]] or methods
    reference = next((m for m in like if m["name"].startswith(REFERENCE)), like[0])
    target = max(run["curve"][-1][1] for run in reference["runs"])
    families = dict.fromkeys(method["family"] for method in methods)
    return {
        "key": key,
        "group": group,
        "words": words,
        "settings": settings,
        "target": math.ceil(100 * target) / 100,  # what the reference reaches with every seed
        "families": [[family, FAMILIES.get(family, family)] for family in families],
        "methods": methods,
    }


def language_run(
    run: Mapping[str, Any],
    up: float,
    down: float,
    uplink: float,
    waits: int | None,
    kinds: Sequence[str],
    curve: Sequence[Sequence[float]] = (),
) -> dict[str, Any]:
    """One run; ``kinds`` are those of the messages up, down and to each other."""
    across = run["nbytes"] - up - down
    ways = zip(kinds, (("up", up), ("down", down), ("across", across)), strict=True)
    return {
        "seed": run["seed"],
        "nbytes": run["nbytes"],
        "up": up,
        "down": down,
        "uplink": uplink,
        "waits": waits,
        "curve": curve or [[run["nbytes"], round(run["nats"], 5)]],
        "ledger": [row for kind, way in ways for row in ledger({kind: way})],
    }


WORKERS_WORDS = {"by speaking role": "four workers with a few speakers each"}
TOGETHER = (  # groups of the experiment that are one task
    "methods",
    "null models",
    "ablations",
    "no server, and moments",
)


def workers() -> list[dict[str, Any]]:
    """Workers that train one model: what is comparable is one task, any other group its own."""
    task, groups = Task(), {}
    rows = runs.rows_of(task, data_parallel.settings(task), runs.read(WORKERS))
    for row in map(language_pooled.holding_all, rows):
        group = row[0].group
        groups.setdefault("" if group in TOGETHER else group, []).append(row)
    tasks = []
    for group, mine in groups.items():
        names = [s.name for s, _ in mine]
        words = WORKERS_WORDS.get(
            group, ", ".join(filter(None, ("four workers train one model", group)))
        )
        steps = mode(s.steps or task.steps for s, _ in mine)
        settings = (
            f"{task.workers} workers, batch {task.batch_size} each, windows of {task.context} "
            f"characters ({task.text}), {steps:,} steps if nothing else is said, a GPT of "
            f"{task.layers} layers of width {task.width}."
        )
        found = [
            (worker_method(s, names), [worker_run(s, task, r) for r in each.values()])
            for s, each in mine
        ]
        key = re.sub(r"\W+", "-", f"workers {group}".strip())
        tasks.append(language_task(key, "Training side by side", words, settings, found))
    return tasks


def worker_method(setting: data_parallel.Setting, names: Sequence[str]) -> dict[str, Any]:
    """A way to train, without its runs; its baseline is its own optimizer's, if that was run."""
    alone = setting.workers == 1 or setting.group == "null models"
    every = setting.method in ("ddp", "demo", "dion", "sparta")
    like = (
        sorted((name for name in names if name.startswith(reference)), key=len)
        for reference in (OWN.get(setting.optimizer, REFERENCE), REFERENCE)
    )
    return {
        "name": setting.name,
        "family": NULL if alone else "every step" if every else "local steps",
        "baseline": next((found[0] for found in like if found), None),
        "code": command("language", setting.name),
        "printed": setting.claim or None,
    }


def worker_run(
    setting: data_parallel.Setting, task: Task, run: Mapping[str, Any]
) -> dict[str, Any]:
    """A run of the workers; all to all, there is no up and no down."""
    across = "samples" if setting.whole_text else "update"
    waits, kinds = worker_waits(setting, task), ("update", "model", across)
    return language_run(run, run["nbytes_up"], run["nbytes_down"], run["uplink"], waits, kinds)


def worker_waits(setting: data_parallel.Setting, task: Task) -> int | None:
    """Messages that followed one another; workers speak side by side. None: not known."""
    num_workers = setting.workers or task.workers
    steps = setting.steps or task.steps
    each = {
        "ThroughServer": 2,
        "AllGather": 1 if num_workers > 1 else 0,
        "Ring": 2 * (num_workers - 1),
    }.get(type(setting.exchange).__name__)
    if setting.method in ("ddp", "demo", "sparta"):
        times = steps
    elif setting.method in ("diloco", "streaming"):
        times = steps // setting.inner_steps
    elif setting.method == "noloco":  # partners send to each other at the same time
        each, times = 1, steps // setting.inner_steps
    elif setting.method == "dion":  # two means in each step
        times = 2 * steps
    else:
        return None
    return None if each is None else each * times


def cut() -> list[dict[str, Any]]:
    """A transformer in two parts, and U-shaped."""
    words = {
        "scratch": "cut in two: fresh weights",
        "tune": "cut in two: learning capital letters",
    }
    stored, tasks = runs.read(WORKERS.with_name("language_split.jsonl")), []
    for title, task in language_split.TASKS.items():
        rows = runs.converged(runs.rows_of(task, language_split.settings(task), stored))
        if not rows:
            continue
        names, found = {s.name for s, _ in rows}, []
        for s, each in rows:
            own = f"{FLOAT32} (U)" if s.shape == "U-shaped" else FLOAT32
            about = {
                "name": s.name,
                "family": s.part,
                "printed": None,
                "baseline": own if own in names else None,
                "code": command("language.split", s.name, "--task", title),
            }
            up_and_down = ("activations", "gradients") if s.shape == "plain" else ("both", "both")
            kinds = (*up_and_down, "")
            waits = split_waits(s, task)
            told = [
                language_run(r, r["nbytes_up"], r["nbytes_down"], r["nbytes_up"], waits, kinds)
                for r in each.values()
            ]
            found.append((about, told))
        effort = language_split.effort(task, rows)
        group = "A transformer in two parts"
        tasks.append(language_task(f"split-{title}", group, words.get(title, title), effort, found))
    return tasks


def split_waits(setting: language_split.Setting, task: language_split.Task) -> int:
    """Messages that followed one another: two links up and two down if U-shaped, else one each.

    With a gate, the label party announces the state when an epoch or a period of 50 steps begins.
    """
    epoch = -(-task.num_windows // task.batch_size)
    steps = task.epochs * epoch
    if setting.shape == "U-shaped":
        return 4 * steps
    if setting.period == 1:
        return 2 * steps + (0 if setting.upload is None else task.epochs)
    periods = [min(50, steps - start) for start in range(0, steps, 50)]
    both, up_only = periods[:: setting.period], periods[1 :: setting.period]
    announced = {*range(0, steps, epoch), *range(0, steps, 50)}
    return 2 * sum(both) + sum(up_only) + len(announced)  # states A and B; in C nothing is sent


def owners() -> list[dict[str, Any]]:
    """Owners of texts who fine-tune one model together."""
    words = {"upper": "fine-tuning: capital letters", "roles": "fine-tuning: four speakers"}
    stored, tasks = runs.read(WORKERS.with_name("language_finetune.jsonl")), []
    for title, task in finetune.TASKS.items():
        rows = runs.converged(runs.rows_of(task, finetune.settings(task), stored))
        if not rows:
            continue
        whole = FULL if any(s.name == FULL for s, _ in rows) else None
        found = [
            (
                {
                    "name": s.name,
                    "family": s.part,
                    "baseline": whole,
                    "printed": None,
                    "code": command("language.finetune", s.name, "--task", title),
                },
                [one_tuning(task, r) for r in each.values()],
            )
            for s, each in rows
        ]
        effort, group = finetune.effort(task, rows), "Fine-tuning together"
        tasks.append(
            language_task(f"finetune-{title}", group, words.get(title, title), effort, found)
        )
    return tasks


def one_tuning(task: finetune.Task, run: Mapping[str, Any]) -> dict[str, Any]:
    """A run of fine-tuning, tested after each round. The store has bytes per round and client."""
    up, down = (task.num_clients * run[f"nbytes_{way}"] for way in ("up", "down"))
    total_up, waits = round(up * task.rounds), 2 * task.rounds - 1  # the first download is free
    curve = [[round(up * (i + 1) + down * i), x] for i, x in enumerate(run["nats_by_round"])]
    assert curve[-1][0] == run["nbytes"], run["name"]
    curve[-1][1] = round(run["nats"], 5)
    down = run["nbytes"] - total_up
    return language_run(run, total_up, down, total_up, waits, ("update", "model", ""), curve)


# ------------------------------------------------------------------------------------- silence


def silence() -> dict[str, Any]:
    """The runs with one client and 8-bit floats, and vanilla: thresholds and the other rules."""
    task = async_states.Task()
    chosen = [s for s in async_states.settings(task) if s.clients == 1]
    rows = runs.rows_of(task, chosen, runs.read(SILENCE))
    return {
        "num_epochs": task.epochs,
        "steps_an_epoch": task.num_steps // task.epochs,
        "rows": [
            {
                "part": setting.part,
                "family": setting.family,
                "name": setting.name,
                "gate": short(repr(setting.gate)),
                "runs": [
                    {key: run[key] for key in ("seed", "nbytes", "accuracy", "steps", "curve")}
                    for run in runs.values()
                ],
            }
            for setting, runs in rows
            if setting.codecs in ({}, async_states.FLOAT8)
        ],
        "data_nbytes": data_nbytes(task.data),
        "null": [
            {"name": name, "runs": [{"seed": seed, **run} for seed, run in found.items()]}
            for name, found in pareto_report.null_runs(task.data).items()
            if name in (SEND, ONE_BIT, UNTRAINED, COMMONEST)  # its owner alone is all owners
        ],
    }


# ------------------------------------------------------------------------------------- leakage


def what_leaks() -> dict[str, Any]:
    """Attacks on activations and on gradients, by task, setting and seed."""
    results = runs.read(LEAKS)
    tasks = {}
    for name, task in leakage.TASKS.items():
        rows = [row for row in leakage_rows_of(task, results) if "accuracy" in row[1].get(0, {})]
        first = next(runs[0] for _, runs in rows if "originals" in runs.get(0, {}))
        tasks[name] = {
            "side": {"digits": 8, "mnist": 28}[name],
            "originals": picture(first["originals"]),
            "rows": [
                {"part": s.part, "name": s.name, "runs": [leak(run) for run in runs.values()]}
                | (
                    {"shown": picture(runs[0]["shown"])}
                    if s.part in (leakage.UP, leakage.DEFENCES) and "shown" in runs.get(0, {})
                    else {}
                )
                for s, runs in rows
            ],
        }
    return {"parts": [leakage.UP, leakage.DEFENCES, leakage.DOWN, leakage.BINARY], "tasks": tasks}


def leak(run: Mapping[str, Any]) -> dict[str, float | None]:
    """The numbers of a run that docs/leakage.md shows, to five digits."""
    numbers = {
        "accuracy": run["accuracy"],
        "nbytes_up": run["nbytes_up"],
        "nbytes_down": run["nbytes_down"],
        "dcor": run["dcor"],
        "explained_variance": run["explained_variance"],
        "positions": run["positions"],
        "task_auc": run.get("task_auc"),
        **{
            f"{attack}_{word}": of(run[f"{attack}_auc"])
            for attack in ("norm", "direction")
            for word, of in (("best", max), ("mean", mean))
        },
    }
    return {"seed": run["seed"]} | {
        key: None if value is None else round(value, 5) for key, value in numbers.items()
    }


def picture(encoded: str) -> str:
    """Pixels of a byte each as pixels of four bits each: 16 shades of grey, half the size."""
    pixels = np.frombuffer(base64.b64decode(encoded), np.uint8)
    shades = np.rint(pixels / 17).astype(np.uint8)
    return base64.b64encode((shades[0::2] << 4 | shades[1::2]).tobytes()).decode()


# -------------------------------------------------------------------------- a codec on a tensor


def record() -> dict[str, Any]:
    """Three tensors of a split training on digits, taken as notebook codec_gallery takes them."""
    torch.set_num_threads(1)
    data = flt.load("digits").flat()
    model = flt.splitnn_mlp(data.x_train.shape[1], seed=0)
    bottom, top = model[:4], model[4:]
    alice = flt.Party("alice", bottom, flt.SGD(bottom.parameters(), lr=0.03))
    bob = flt.Party("bob", top, flt.SGD(top.parameters(), lr=0.03), loss_fn=nn.NLLLoss())
    batches = flt.Batches(data.x_train, data.y_train, batch_size=64, seed=0)

    def train(epochs: Any) -> None:
        for _ in flt.train_split([alice, bob], epochs, flt.Channel()):
            pass

    train(batches.epochs(5))
    x, y = batches.at(torch.arange(64))
    h = bottom(x).detach().requires_grad_()
    nn.NLLLoss()(top(h), y).backward()
    before = bottom[2].weight.detach().clone()
    train(batches.epoch(5))
    update = bottom[2].weight.detach() - before
    tensors = {"activation": h.detach()[:8], "gradient": h.grad[:8], "update": update[:40]}
    return {name: tensor_text(tensor) for name, tensor in tensors.items()}


def tensor_text(tensor: Tensor) -> dict[str, Any]:
    """Shape, and the values as base64 of little-endian float32."""
    raw = tensor.numpy().astype("<f4").tobytes()
    return {"shape": list(tensor.shape), "values": base64.b64encode(raw).decode()}


def tensor_of(entry: Mapping[str, Any]) -> Tensor:
    """The reverse of `tensor_text`."""
    values = np.frombuffer(base64.b64decode(entry["values"]), "<f4").astype(np.float32)
    return torch.from_numpy(values).reshape(entry["shape"])


def recorded() -> dict[str, Tensor]:
    """The tensors that `record` has recorded."""
    entries = json.loads(TENSORS.read_text(encoding="utf-8"))
    return {name: tensor_of(entry) for name, entry in entries.items()}


def pipeline(bits: int, fraction: float, *coder: Any) -> codecs.Pipeline:
    """The codec that two sliders stand for."""
    stages = [TopK(fraction)] if fraction < 1 else []
    stages += [Quantize(bits)] if bits < 32 else []
    return codecs.Pipeline(*stages, *coder)


class Described(NamedTuple):
    """What a codec does to one tensor."""

    nbytes: int  # of the message
    nominal_bits: float  # per value, as are the next: symbols at their width, floats at 32 bits
    entropy_bits: float  # the least for symbols and positions that are independent of each other
    relative_error: float  # |C(x) - x|^2 / |x|^2; all zeros would have the error 1
    largest_error: float  # of a single value
    edges: tuple[float, ...]  # of the bins of the histograms
    before: tuple[int, ...]  # the number of values in each bin
    after: tuple[int, ...]  # of the decoded values; the two end bins hold values beyond them


def described(tensor: Tensor, codec: codecs.Pipeline) -> Described:
    """Send a tensor through a new pipeline, and compare what arrives."""
    tree = {"x": tensor}
    rows = codec.explain(tree)
    coded = rows[-2] if len(rows) > 1 else rows[-1]  # after the coder there are only bytes
    message = codec.encode(tree)
    x, y = (t.double().numpy().ravel() for t in (tensor, codec.decode(message)["x"]))
    reach = (x.max() - x.min()) / 2  # each end of the bins moves at most so far to reach y
    low = max(x.min() - reach, min(x.min(), y.min()))
    high = min(x.max() + reach, max(x.max(), y.max()))
    edges = np.linspace(low, high, 61)
    before, after = (np.histogram(v.clip(low, high), edges)[0] for v in (x, y))
    return Described(
        len(message),
        coded.nominal_bits / x.size,
        coded.entropy_bits / x.size,
        float((y - x) @ (y - x)) / float(x @ x),
        float(np.abs(y - x).max()),
        *(tuple(each.tolist()) for each in (edges, before, after)),
    )


def codec_table(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Each tensor with its histogram, and what is measured at each stop of the sliders."""
    stops = {f"{fraction:g}/{bits}": (bits, fraction) for fraction in FRACTIONS for bits in BITS}
    found = {}
    for name, tensor in tensors.items():
        plain = described(tensor, codecs.Pipeline())
        found[name] = {
            "shape": list(tensor.shape),
            "low": digits_of(plain.edges[0]),
            "high": digits_of(plain.edges[-1]),
            "before": plain.before,
            "stops": {key: codec_stop(tensor, *stop) for key, stop in stops.items()},
        }
    return {"bits": BITS, "fractions": FRACTIONS, "tensors": found, "leaks": leaks_of_stops()}


def codec_stop(tensor: Tensor, bits: int, fraction: float) -> list[Any]:
    """Bytes without and with `ContextEntropy`, nominal bits per value, the bound if symbols are
    independent, both errors, how many values are kept, and the histogram of what arrives."""
    plain = described(tensor, pipeline(bits, fraction))
    coded = described(tensor, pipeline(bits, fraction, ContextEntropy()))
    return [
        *(plain.nbytes, coded.nbytes),
        *(round(coded.nominal_bits, 6), round(coded.entropy_bits, 4)),
        *(digits_of(plain.relative_error), digits_of(plain.largest_error)),
        *(num_kept(fraction, tensor.numel()), plain.after),
    ]


def digits_of(value: float) -> float:
    """A number to five significant digits."""
    return float(f"{value:.5g}")


def leaks_of_stops() -> dict[str, list[float]]:
    """What attackers found behind the codec of a stop, where `experiments.leakage` has run it.

    By stop: the mean of the explained variance of the images of digits, the ends of its 95 %
    interval, and how many seeds.
    """
    stops = {
        repr(pipeline(bits, fraction)): f"{fraction:g}/{bits}"
        for bits in BITS
        for fraction in FRACTIONS
    }
    found = {}
    for setting, by_seed in leakage_rows_of(leakage.TASKS["digits"], runs.read(LEAKS)):
        stop = stops.get(repr(setting.up or codecs.Pipeline()))
        if setting.part == leakage.UP and stop:
            value = interval([run["explained_variance"] for run in by_seed.values()])
            ends = (value.mean, value.low, min(value.high, 1.0))
            found[stop] = [*(round(each, 5) for each in ends), value.num]
    return found


# ------------------------------------------------------------------------------ the playground


def mixed_digits() -> flt.data.Samples:
    """The digits; the training images are shuffled, so that the first are not all of one person."""
    data = flt.load("digits").flat()
    order = torch.randperm(len(data.y_train), generator=torch.Generator().manual_seed(0))
    return replace(data, x_train=data.x_train[order], y_train=data.y_train[order], owners=None)


def digits() -> dict[str, Any]:
    """All 1,797 digits without loss, training samples first."""
    data = mixed_digits()
    mean_, deviation = PIXEL_STATISTICS["digits"]
    x = torch.cat([data.x_train, data.x_test]).double()
    pixels = (16 * (x * deviation[0] + mean_[0])).round().to(torch.uint8).numpy()
    labels = torch.cat([data.y_train, data.y_test]).tolist()
    return {
        "pixels": "".join("0123456789abcdefg"[value] for value in pixels.ravel()),
        "labels": "".join(map(str, labels)),
        "data_nbytes": data_nbytes("digits"),
        "rows": {
            task["partition"]: [
                [m["name"], m["family"], *map(mean, zip(*ends(task, m), strict=True))]
                for m in task["methods"]
                if m["name"] in STORED_BESIDE
            ]
            for task in the_one_plot("digits")["tasks"]
        },
    }


def ends(task: Mapping[str, Any], method: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Bytes and accuracy at the end of each run."""
    return [(run["nbytes"], run["curve"][-1][1] / task["num_test"]) for run in method["runs"]]


# What each file is made by; the page of a codec also needs the recorded tensors.
EXPORTS: dict[str, Callable[[], Any]] = {
    "pareto": the_one_plot,
    "fedavg": rounds_of_averaging,
    "language": language,
    "silence": silence,
    "leakage": what_leaks,
    "codec": lambda: codec_table(recorded()),
    "digits": digits,
}


def export(folder: Path) -> None:
    """All files into ``folder``, which stands for docs/explore."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for name, make in EXPORTS.items():
        (folder / "data" / f"{name}.js").write_text(line(name, make()), encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="train on digits, record tensors")
    if parser.parse_args().record:
        TENSORS.write_text(json.dumps(record()) + "\n", encoding="utf-8")
    export(EXPLORE)


if __name__ == "__main__":
    main()
