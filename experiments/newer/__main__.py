"""The command line; see the docstring of the package."""

import argparse
import time
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import torch

from experiments.newer import report
from experiments.newer.forward import FORWARD_ONLY
from experiments.newer.masked import ONE_BIT_EACH
from experiments.newer.owners import OWNERS_DIFFER
from experiments.newer.seeds import FINE_TUNED, FROM_SCRATCH
from experiments.newer.setting import Setting
from experiments.runs import STORED, Result, read, sweep

RESULTS = STORED / "newer.jsonl"
ALL = (OWNERS_DIFFER, FROM_SCRATCH, FINE_TUNED, ONE_BIT_EACH, FORWARD_ONLY)
GROUPS = {group.name: group for group in ALL}


def run(_task: None, setting: Setting, seed: int) -> Result:
    """One run with what identifies it; a run that diverges is a result, too."""
    group, start = GROUPS[setting.group], time.process_time()
    try:
        found = group.run(setting, seed)
    except FloatingPointError as error:
        found = {"nbytes": 0, "error": str(error)[:80]}
    return {
        **{"key": setting.key(None, seed), "group": setting.group, "name": setting.name},
        **{"options": dict(setting.options), "choosing": setting.choosing, "seed": seed},
        **{key: round(v, 5) if isinstance(v, float) else v for key, v in found.items()},
        "seconds": round(time.process_time() - start, 1),
    }


def summary(result: Result) -> str:
    """The first score in a line."""
    score = next(iter(GROUPS[result["group"]].scores))
    return f"{result.get(score, float('nan')):7.4f} {result['nbytes'] / 1e6:8.3f} MB"


def main() -> None:
    """Choose, run, or report."""
    parser = argparse.ArgumentParser(description="Newer methods on the byte axis.")
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each group's own")
    parser.add_argument("--workers", type=int, default=1, help="processes, one torch thread each")
    parser.add_argument("--report", action="store_true", help="print the tables, run nothing")
    parser.add_argument("--write", action="store_true", help="write them into the page")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    groups = {name: GROUPS[name] for name in args.group}
    if args.seeds:
        groups = {name: replace(g, seeds=tuple(args.seeds)) for name, g in groups.items()}
    if args.report:
        print("\n\n".join(report.table(group, read(args.out)) for group in groups.values()))
    elif args.write:
        report.write(groups, read(args.out))
    else:
        do = partial(sweep, run, path=args.out, workers=args.workers, summary=summary)
        for group in groups.values():
            do(jobs=[(None, s, seed) for s in group.trials() for seed in s.seeds])
            chosen = group.settings(read(args.out))
            do(jobs=[(None, s, seed) for seed in group.seeds for s in chosen])


if __name__ == "__main__":
    # Worker processes look `run` up by its module's name, and cannot find it in "__main__".
    import_module("experiments.newer.__main__").main()
