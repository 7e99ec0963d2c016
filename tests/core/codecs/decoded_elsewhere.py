"""What messages decode to on this machine, for test_machines.py: it emulates others by variables.

    python decoded_elsewhere.py [--write] MESSAGES [MESSAGES ...]

MESSAGES is a JSON file: of each codec's repr its messages, in hexadecimal. With ``--write`` the
first one is made. Prints, for each file, a digest of what each codec decodes, as JSON.
"""

import copy
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import machines
import torch
from stored_runs import CODECS

from experiments.replications.lowrank import PowerSGD
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit_research.codecs import EDEN, Difference, Rotate

ALL = [
    *CODECS,
    *(Pipeline(EDEN(bits)) for bits in (5, 6, 7, 8)),
    Pipeline(PowerSGD(7)),
    Difference(Pipeline(Rotate(), Quantize(4))),
    Difference(Pipeline(PowerSGD(3))),
    Difference(Pipeline(EDEN(2))),
]


def tree(number: int) -> dict[str, torch.Tensor]:
    """Of each of the sizes at which kernels for matrices choose another way."""
    generator = torch.Generator().manual_seed(number)
    shapes = {"w": (200, 130), "v": (777,), "c": (9, 5, 7, 2), "b": (20_001,), "one": (16,)}
    values = {name: torch.randn(*s, generator=generator) for name, s in shapes.items()}
    values["w"] *= torch.rand(200, 1, generator=generator) ** 3
    return {**values, "h": values["v"].half(), "large": values["one"] * 100}


def write(path: Path) -> None:
    made = {}
    for codec in ALL:
        sender = copy.deepcopy(codec)
        made[repr(codec)] = [sender.encode(tree(number)).hex() for number in range(3)]
    path.write_text(json.dumps(made))


def decoded(path: Path) -> dict[str, str]:
    digests = {}
    messages = json.loads(path.read_text())
    for codec in ALL:
        receiver, digest = copy.deepcopy(codec), hashlib.sha256()
        for message in messages[repr(codec)]:
            for tensor in receiver.decode(bytes.fromhex(message)).values():
                digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        digests[repr(codec)] = digest.hexdigest()
    return digests


def main() -> None:
    torch.set_num_threads(1)
    if found := machines.used_in_spite():
        sys.exit(f"the variables ask for another machine, and yet this one uses {found}")
    paths = [Path(name) for name in sys.argv[1:] if name != "--write"]
    if "--write" in sys.argv:
        write(paths[0])
    print(json.dumps([decoded(path) for path in paths]))


if __name__ == "__main__":
    main()
