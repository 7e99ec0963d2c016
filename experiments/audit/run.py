"""Finding the claims, measuring what is missing, and judging.

What was measured is kept as lines of JSON, a line for each measure and seed; what is there is not
measured again, so an interrupted audit goes on where it was.
"""

import importlib.util
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from experiments.audit.claim import Claim, Finding, Measure, Runs, Values, Verdict
from experiments.audit.measures import measure
from experiments.runs import add, read
from fltoolkit_research import Experiment

CLAIMS = Path(__file__).parent / "claims"
RESULTS = Path(__file__).parents[1] / "results" / "audit.jsonl"


def find(folder: Path = CLAIMS) -> dict[str, Claim]:
    """All claims of the files of a folder, by name.

    A file has one CLAIM, whose name is that of the file (``c3_sl_2022.py`` is ``c3-sl-2022``), or
    several in a dict CLAIMS by name. Raises ValueError for a file without either.
    """
    found: dict[str, Claim] = {}
    for path in sorted(folder.glob("[!_]*.py")):
        spec = importlib.util.spec_from_file_location(f"audit_claims_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        alone = {path.stem.replace("_", "-"): getattr(module, "CLAIM", None)}
        claims = getattr(module, "CLAIMS", alone)
        if not all(isinstance(claim, Claim) for claim in claims.values()):
            raise ValueError(f"{path}: a file defines CLAIM = Claim(...), or CLAIMS by name")
        found |= claims
    return dict(sorted(found.items()))


def key(name: str, claim: Claim, measured: str, seed: int) -> str:
    """The same for the same measurement: the claim, what is measured, how, and the seed."""
    what = claim.measures[measured]
    how = what.key if isinstance(what, Experiment) else f"version {claim.version}"
    return f"{name}: {measured}, {how}, seed {seed}"


def missing(claims: Mapping[str, Claim], path: Path = RESULTS) -> list[tuple[str, str, int]]:
    """Claim, measure and seed of all that is not in the file; one seed of all before the next."""
    there = read(path)
    todo = [
        (turn, number, name, measured, seed)
        for number, (name, claim) in enumerate(claims.items())
        for measured in claim.measures
        for turn, seed in enumerate(claim.seeds)
        if key(name, claim, measured, seed) not in there
    ]
    return [each[2:] for each in sorted(todo, key=lambda t: t[:2])]


def audit(claims: Mapping[str, Claim], path: Path = RESULTS) -> Iterator[str]:
    """Measure what is missing, and yield a line of words for each measurement."""
    for name, measured, seed in missing(claims, path):
        claim, start = claims[name], time.perf_counter()
        values = checked(name, measured, measured_once(claim.measures[measured], seed))
        seconds = round(time.perf_counter() - start, 1)
        line = {
            **{"key": key(name, claim, measured, seed), "claim": name, "measure": measured},
            **{"seed": seed, "seconds": seconds, "values": values},
        }
        add(path, line)
        numbers = ", ".join(f"{k} {v:,.6g}" for k, v in values.items())
        yield f"{name}: {measured}, seed {seed}: {numbers} ({seconds} s)"


def measured_once(what: Measure, seed: int, quick: bool = False) -> Values:
    """One run, in one thread."""
    torch.set_num_threads(1)
    return measure(what, seed, quick)


def checked(name: str, measured: str, values: Values) -> Values:
    """The values, rounded; raises ValueError for what is not a finite number."""
    for what, value in values.items():
        if not math.isfinite(value):
            raise ValueError(f"{name}: {measured} gave {what}={value}: only finite numbers count")
    return {what: round(value, 6) for what, value in values.items()}


def finding(name: str, claim: Claim, path: Path = RESULTS) -> Finding | None:
    """The verdict from what is in the file; None as long as a measure has no run."""
    there = read(path)
    values: dict[str, dict[int, Values]] = {measured: {} for measured in claim.measures}
    for measured, seeds in values.items():
        for seed in claim.seeds:
            if result := there.get(key(name, claim, measured, seed)):
                seeds[seed] = result["values"]
    if not all(values.values()):
        return None
    found = claim.judge(Runs(values))
    if found.verdict is Verdict.DISAGREES and claim.lacks:
        return replace(found, verdict=Verdict.UNTESTED)
    if found.verdict is Verdict.AGREES and claim.own_task:
        return replace(found, verdict=Verdict.REPRODUCED)
    return found


def quick(claim: Claim, seeds: Sequence[int] = (0,)) -> Finding:
    """The quick edition: few samples, one seed. Its verdict means nothing, but it has one."""
    values = {
        name: {seed: measured_once(what, seed, quick=True) for seed in seeds}
        for name, what in claim.measures.items()
    }
    return claim.judge(Runs(values))
