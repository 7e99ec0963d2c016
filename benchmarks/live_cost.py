"""How much time does a live picture take? The threshold lab with and without its picture.

python -m benchmarks.live_cost

It runs in a real Jupyter kernel, so that messages to the front end are made and sent. Three kinds
of the same run take turns, and each figure is a ratio to the first of its round:

- alone: the loop over the records, kept in a History
- lab: in a `ThresholdLab` (thread, orders between records), nothing displayed
- drawn: the same lab displayed, redrawn as often as it allows itself while it trains

CPU time of the whole kernel process, all threads, from the first record to the last. On a busy
machine the ratios vary by more than the difference, so the drawing is also timed by itself in its
thread. The saved picture (PNG, once per run, after the last record) is timed separately.
"""

import argparse
import statistics
import sys
import time
from typing import Any

IN_THE_KERNEL = """
import random, time
import torch
from fltoolkit.history import History
from fltoolkit_course.labs import ThresholdLab
from fltoolkit_course.plots.below_controls import BelowControls

torch.set_num_threads(1)
drawings = []

def timed(update, png):
    def draw(picture, *how, **options):
        start = time.thread_time()
        update(picture, *how, **options)
        drawings.append((png, time.thread_time() - start))
    return draw

BelowControls.moved = timed(BelowControls.moved, False)
BelowControls.rest = timed(BelowControls.rest, True)

class Timed(ThresholdLab):
    def begin(self, values):
        def records():
            start = time.process_time(), time.perf_counter()
            yield from made
            self.spent = time.process_time() - start[0], time.perf_counter() - start[1]
        training = super().begin(values)
        made = training.records()
        training.records = records
        return training

def alone(lab):
    history = History()
    for _ in history.follow(lab.begin({"num_epochs": lab.num_epochs} | lab.values).records()):
        pass

def in_a_thread(lab):
    lab.pace(float("inf"))
    lab.start()
    lab.wait()
    assert lab.current.status == "finished", lab.current.runner.traceback

def drawn(lab):
    display(lab)
    in_a_thread(lab)

def measure(rounds, num_epochs):
    kinds, rng = {"alone": alone, "lab": in_a_thread, "drawn": drawn}, random.Random(0)
    for number in range(rounds + 1):
        order = list(kinds)
        rng.shuffle(order)
        row = {}
        before = len(drawings)
        for kind in order:
            lab = Timed(num_epochs=num_epochs, threshold=0.05)
            kinds[kind](lab)
            row[kind] = lab.spent
        live = [seconds for png, seconds in drawings[before:] if not png]
        if number:  # the first round warms up
            print("ROUND", *(f"{seconds:.6f}" for kind in kinds for seconds in row[kind]), end=" ")
            print(len(live), f"{sum(live):.6f}")
    at_rest = sorted(seconds for png, seconds in drawings if png)
    print("PNG", f"{at_rest[len(at_rest) // 2]:.6f}")
"""


TRAIN_ON = """
lab = ThresholdLab(num_epochs=100_000, threshold=0.05)
display(lab)
lab.pace(float("inf"))
_ = lab.start()
"""


def answers(client: Any, number: int = 40) -> list[float]:
    """Seconds until the kernel has run an empty cell."""
    seconds = []
    for _ in range(number):
        time.sleep(0.05)
        start = time.perf_counter()
        client.execute_interactive("pass", timeout=60)
        seconds.append(time.perf_counter() - start)
    return seconds


def in_a_kernel(code: str, seconds: float) -> tuple[list[str], list[float], list[float]]:
    """What ``code`` prints in a fresh Jupyter kernel; its answers when idle and when it trains."""
    try:
        from jupyter_client.manager import start_new_kernel
    except ImportError as error:
        raise SystemExit('this needs Jupyter: pip install "fltoolkit[lab]"') from error
    printed: list[str] = []

    def listen(message: dict) -> None:
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            printed.append(content["text"])
        if message["msg_type"] == "error":
            print("\n".join(content["traceback"]), file=sys.stderr)
            raise SystemExit(1)

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        client.execute_interactive(code, timeout=seconds, output_hook=listen)
        idle = answers(client)
        client.execute_interactive(TRAIN_ON, timeout=60, output_hook=listen)
        busy = answers(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return "".join(printed).splitlines(), idle, busy


def main(rounds: int, num_epochs: int) -> None:
    code = f"{IN_THE_KERNEL}\nmeasure({rounds}, {num_epochs})"
    printed, *answering = in_a_kernel(code, 60 + 60 * rounds)
    lines = [line.split() for line in printed]
    rows = [list(map(float, line[1:])) for line in lines if line[0] == "ROUND"]
    print(f"Threshold lab on digits, {num_epochs} epochs at full speed, {rounds} rounds")
    print(f"{'':8}{'CPU s':>8}{'ratio to alone [least, most]':>32}{'wall ratio':>14}")
    for column, kind in enumerate(("alone", "lab", "drawn")):
        ratios = [row[2 * column] / row[0] for row in rows]
        walls = [row[2 * column + 1] / row[1] for row in rows]
        seconds = statistics.median(row[2 * column] for row in rows)
        spread = f"{statistics.median(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]"
        print(f"{kind:8}{seconds:8.2f}{spread:>32}{statistics.median(walls):14.3f}")
    pictures, share, each = (
        [row[6] for row in rows],
        [100 * row[7] / row[4] for row in rows],
        [1000 * row[7] / row[6] for row in rows],
    )
    print(
        f"drawn {statistics.median(pictures):.0f} times a run, "
        f"{statistics.median(each):.1f} ms each: "
        f"{statistics.median(share):.1f} % of its CPU time, at most {max(share):.1f} % (goal: 5 %)"
    )
    (png,) = (float(line[1]) for line in lines if line[0] == "PNG")
    print(f"the picture that stays, once a run after its end: {1000 * png:.0f} ms")
    for words, seconds in zip(("idle", "while it trains"), answering, strict=True):
        middle, most = 1000 * statistics.median(seconds), 1000 * max(seconds)
        print(f"an empty cell, {words}: {middle:.0f} ms, at most {most:.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    main(arguments.rounds, arguments.epochs)
