"""How long grading takes: 40 submissions of assignment 1, two at a time.

    python -m benchmarks.grading                    # 40 submissions, 2 jobs
    python -m benchmarks.grading --students 8

Of twenty, eighteen are right, one stops with an error, and one loops until its time is up. Prints
wall time, processor time and memory.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from fltoolkit_grading import Limits, grade, load_master, release
from fltoolkit_grading.master import kind_of, text_of


def hand_in(folder: Path, students: int) -> None:
    """Write the submissions."""
    master = load_master("1")
    solutions = {c["id"]: text_of(c) for c in master.cells if kind_of(c) == "answer"}
    for number in range(students):
        notebook = release(master)
        for cell in notebook["cells"]:
            cell["source"] = solutions.get(cell["id"], cell["source"])
            if number % 20 == 9 and cell["id"] == "a1-epoch-bill":
                cell["source"] = "while True: pass"
            elif number % 20 == 19 and cell["id"] == "a1-split-step":
                cell["source"] = "1 / 0"
        (folder / f"student_{number:02d}.ipynb").write_text(json.dumps(notebook))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        inbox, out = Path(folder, "in"), Path(folder, "out")
        inbox.mkdir()
        hand_in(inbox, args.students)
        began = time.perf_counter()
        results = grade(inbox, "1", out, jobs=args.jobs, limits=Limits())
        wall = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    nbval = sum(usage.ru_utime + usage.ru_stime for usage in used) / args.students
    kernels = statistics.median(result.cpu_seconds for result in results)
    seconds = sorted(result.seconds for result in results)
    memory = max(result.memory for result in results) / 1e6
    grader = used[0].ru_maxrss / 1e3
    print(f"{args.students} submissions, {args.jobs} at a time, load {os.getloadavg()[0]:.1f}")
    print(f"wall time {wall:.0f} s in all, {wall / args.students:.1f} s per submission")
    print(
        f"one submission: median {statistics.median(seconds):.1f} s, slowest {seconds[-1]:.1f} s;"
        f" processor time {kernels:.1f} s in the kernel (median)"
        f" and {nbval:.1f} s around it"
    )
    print(f"memory: largest kernel {memory:.0f} MB, the grader {grader:.0f} MB")
    print("points:", *(f"{result.total:g}" for result in results))


if __name__ == "__main__":
    main()
