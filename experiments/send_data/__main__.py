"""Averaging beside sent pictures, on CIFAR-10 (JPEG copies): bytes and accuracy.

    python -m experiments.send_data                     # all settings, three seeds; resumable
    python -m experiments.send_data --device cuda --workers 8
    python -m experiments.send_data --report            # the tables, from the stored results
    python -m experiments.send_data --write             # the same into docs/send_the_data.md
    python -m experiments.send_data.leak                # what the third axis needs, on MNIST

Needs Pillow, and ``cifar10_jpeg/images.tar.xz`` under ``FLTOOLKIT_DATA``.
"""

from functools import partial

from experiments.runs import options, seeds_and_workers, sweep
from experiments.send_data.pictures import pictures
from experiments.send_data.report import PAGE, RESULTS, tables
from experiments.send_data.run import run
from experiments.send_data.settings import ORIGINAL, SETTINGS


def main() -> None:
    """The command line."""
    parser = options(__doc__, RESULTS)
    seeds_and_workers(parser)
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    args = parser.parse_args()
    if args.report or args.write:
        PAGE.tell(tables(), args)
        return
    mine = [setting for setting in SETTINGS if args.only in setting.name]
    for form in {ORIGINAL, *(getattr(setting, "form", ORIGINAL) for setting in mine)}:
        pictures(form, args.workers)  # made once, before there are several processes
    jobs = [(None, setting, seed) for setting in mine for seed in args.seeds or (0, 1, 2)]
    sweep(partial(run, device=args.device), jobs, args.out, workers=args.workers)


if __name__ == "__main__":
    main()
