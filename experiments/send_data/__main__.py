"""Averaging beside sent pictures, on CIFAR-10 (JPEG copies): bytes and accuracy.

    python -m experiments.send_data                     # all settings, three seeds; resumable
    python -m experiments.send_data --device cuda --jobs 8 --seconds 420
    python -m experiments.send_data --small             # a minute on one core: does it work?
    python -m experiments.send_data --leak --jobs 5     # the third axis, on MNIST; resumable
    python -m experiments.send_data --report            # the tables, from the stored results
    python -m experiments.send_data --write             # the same into docs/send_the_data.md

Needs Pillow, and ``cifar10_jpeg/images.tar.xz`` under ``FLTOOLKIT_DATA``.
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

from experiments.runs import STORED, Result, add, read, score
from experiments.send_data.pictures import pictures
from experiments.send_data.run import run
from experiments.send_data.settings import ALL, FORMS, Sent, Setting, Together, key

RESULTS = STORED / "send_data.jsonl"
LEAKS = STORED / "send_data_leak.jsonl"
CACHE = Path("runs") / "send_data"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, a run each (default: 1)")
    parser.add_argument("--seconds", type=float, default=1e9, help="then no run is started")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2")
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--results", type=Path, help="file of results")
    parser.add_argument("--cache", type=Path, default=CACHE, help="for decoded pictures")
    parser.add_argument("--small", action="store_true", help="few samples and rounds, a seed")
    parser.add_argument("--leak", action="store_true", help="run what the third axis needs (MNIST)")
    parser.add_argument("--report", action="store_true", help="print the tables, run nothing")
    parser.add_argument("--write", action="store_true", help="write them into the page, and draw")
    args = parser.parse_args()
    if args.report or args.write:
        from experiments.send_data import report

        report.PAGE.tell(report.tables(), args)
        if args.write:
            report.draw()
        return
    if args.leak:
        leak(args, args.results or LEAKS)
        return
    begin = time.time()
    todo = list(jobs(args.small, args.seeds, args.only))
    for form in FORMS:
        if form != FORMS[0] and not any(form == getattr(s, "form", None) for s, _ in todo):
            continue
        pictures(form, args.cache, args.jobs)
        print(f"pictures {form}: ready after {time.time() - begin:.0f} s", flush=True)
    results = args.results or RESULTS
    there, deadline = read(results), begin + args.seconds
    train = partial(run, cache=args.cache, device=args.device, deadline=deadline)
    work(train, [job for job in todo if key(*job) not in there], results, args.jobs, deadline)


def jobs(small: bool, seeds: Sequence[int], only: str) -> Iterator[tuple[Setting, int]]:
    """What there is to run."""
    settings, numbers = ALL, seeds
    if small:
        short = partial(Sent, samples_seen=10_000, num_samples=2000, num_test=500, batch_size=50)
        settings = [
            Together(4, 1, 6, 0.01, 0.02, batch_size=50, num_samples=2000, num_test=500),
            *(short(form, 500) for form in (FORMS[0], FORMS[3])),
        ]
        numbers = range(1)
    for setting in settings:
        for seed in numbers:
            if only in setting.name:
                yield setting, seed


def leak(args: argparse.Namespace, results: Path) -> None:
    """Run what is not in the file yet of the third axis."""
    from experiments.send_data import leak

    jobs = [(setting, seed) for seed in args.seeds for setting in leak.SETTINGS]
    there = read(results)
    left = [(s, seed) for s, seed in jobs if args.only in s.name and s.key(seed) not in there]
    work(leak.run, left, results, args.jobs, time.time() + args.seconds)


def work(
    train: Callable[[Any, int], Result],
    left: list[Any],
    results: Path,
    workers: int,
    deadline: float,
) -> None:
    """Each run in a process; a line of JSON for each as it ends. After the deadline none begins."""
    print(f"{len(left)} runs to do for {results}", flush=True)
    results.parent.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        running: set[Future[Result]] = set()
        while running or (left and time.time() < deadline):
            while left and len(running) < workers and time.time() < deadline:
                setting, seed = left.pop(0)
                running.add(pool.submit(train, setting, seed))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                if error := future.exception():
                    print(f"a run failed: {type(error).__name__}: {error}", flush=True)
                else:
                    add(results, result := future.result())
                    name = f"{result['name']:52s} seed {result['seed']}"
                    print(f"{name} {score(result)} {result['seconds']:6.1f} s", flush=True)
    print(f"{len(left)} runs were not begun", flush=True)


if __name__ == "__main__":
    main()
