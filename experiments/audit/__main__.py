"""Published claims, measured here: `python -m experiments.audit`."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

EXAMPLES = """
  python -m experiments.audit             the claims and their verdicts
  python -m experiments.audit chen-2021   measure what is missing, and judge the claim
  python -m experiments.audit chen-2021 --seeds 41 42 43 --out mine.jsonl with your own seeds
  python -m experiments.audit --all       measure what is missing; Ctrl-C, and go on later
  python -m experiments.audit --quick     the quick edition of each: does it run at all?
  python -m experiments.audit --page      write docs/audit.md and its picture from what was measured
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.audit",
        description="Claims of papers and systems about bytes and accuracy, measured here.",
        epilog=f"examples:{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="CLAIM", help="names, as the list shows them")
    parser.add_argument("--all", action="store_true", help="all claims")
    parser.add_argument("--quick", action="store_true", help="few samples, one seed, nothing kept")
    words = "measure and judge with these, such as 41 42 43; needs --out"
    parser.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help=words)
    parser.add_argument("--page", action="store_true", help="write the page")
    parser.add_argument("--claims", type=Path, help="folder of the claims")
    parser.add_argument("--out", type=Path, help="file of what was measured")
    args = parser.parse_args(arguments)  # --help ends here, so what follows may import torch
    from experiments.audit import page
    from experiments.audit.run import CLAIMS, RESULTS, audit, find, finding, missing, quick

    args.out = args.out or RESULTS
    claims = find(args.claims or CLAIMS)
    if strangers := [name for name in args.names if name not in claims]:
        raise ValueError(f"{strangers[0]!r} is no claim. There are: {', '.join(claims)}")
    chosen = {name: claims[name] for name in args.names} if args.names else claims
    if args.seeds:
        if args.out == RESULTS and not args.quick:
            raise ValueError("--seeds: name a file with --out, since the page's seeds are fixed")
        chosen = {name: replace(claim, seeds=args.seeds) for name, claim in chosen.items()}
    if args.quick:
        for name, claim in chosen.items():
            tried = quick(claim, args.seeds or (0,))
            print(f"{name:26s} {tried.verdict.value}", flush=True)
        return 0
    if args.names or args.all:
        try:
            for line in audit(chosen, args.out):
                print(line, flush=True)
        except KeyboardInterrupt:
            print("stopped: what is measured is kept, run again to go on")
            return 130
    found = {name: finding(name, claim, args.out) for name, claim in chosen.items()}
    if args.page:
        if todo := [name for name, each in found.items() if each is None]:
            raise ValueError(
                f"not measured yet: {', '.join(todo)}. Say python -m experiments.audit --all first"
            )
        page.write({name: (chosen[name], each) for name, each in found.items() if each})
        return 0
    for name, each in found.items():
        if each is None:
            print(f"{name:26s} not measured: {len(missing({name: chosen[name]}, args.out))} to do")
        else:
            more = f"\n  {each.words}" if args.names else ""
            print(f"{name:26s} {each.verdict.value:24s} {chosen[name].title}{more}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
