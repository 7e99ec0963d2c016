"""Which samples two owners have in common, found without showing each other the rest.

It precedes vertical split learning, where two owners have different columns of the same people. The
package ``openmined-psi`` computes; the messages are here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.shapes import Int64
from fltoolkit.trees import Tree


def align(
    channel: Channel, ids: Mapping[str, Iterable[str]]
) -> dict[str, Int64[Tensor, " shared"]]:
    """For each of two owners: the rows of the samples that both have, in one common order.

    Private set intersection by commutative encryption on an elliptic curve (Diffie-Hellman):

    1. the first owner sends its ids, each raised to a secret power of its own
    2. the second raises them to its own secret power and sends them back, with its own ids raised
       to that power, in another order
    3. the first removes its power and compares: equal values are shared ids, which it sends to the
       second owner

    All messages have the kind ``intersection``. Both owners learn the shared ids and how many ids
    the other has, and nothing about its other ids. But an owner may claim ids that it does not
    have, and then learns whether the other has them. If ids can be guessed, such as telephone
    numbers, many can be claimed.

    Source: Huberman, Franklin and Hogg 1999, "Enhancing privacy and trust in electronic
    communities"; the package is OpenMined's, on Google's library of that protocol.

    ``ids`` are those of two owners, by name: lists, arrays or columns of texts, in the order of the
    owner's samples. ``x_a[rows["ann"]]`` and ``x_b[rows["ben"]]`` belong to the same people. Over
    several processes only the ids of the owners in this process are read. Raises ValueError if they
    share no id.

    ::

        rows = align(channel, {"ann": ["7", "3", "9"], "ben": ["9", "1", "7"]})
        # {"ann": tensor([0, 2]), "ben": tensor([2, 0])}: 7 and 9, in this order
    """
    if len(ids) != 2:
        raise ValueError(f"owners {[*ids]}: give the ids of two owners")
    psi = _psi()
    first, second = ids
    its_ids, other_ids = (
        _texts(name, own) if channel.is_here(name) else [] for name, own in ids.items()
    )
    message: Tree = {}
    if channel.is_here(first):
        asking = psi.client.CreateWithNewKey(True)
        message = _tree(ids=asking.CreateRequest(its_ids))
    came = channel.send(first, second, "intersection", message)
    message = {}
    if channel.is_here(second):
        answering, request = psi.server.CreateWithNewKey(True), psi.Request()
        request.ParseFromString(came["ids"].numpy().tobytes())
        raw = psi.DataStructure.RAW  # exact: no wrong matches, as a Bloom filter has
        setup = answering.CreateSetupMessage(0.0, len(request.encrypted_elements), other_ids, raw)
        message = _tree(theirs=answering.ProcessRequest(request), own=setup)
    came = channel.send(second, first, "intersection", message)
    message, rows = {}, {}
    if channel.is_here(first):
        setup, response = psi.ServerSetup(), psi.Response()
        setup.ParseFromString(came["own"].numpy().tobytes())
        response.ParseFromString(came["theirs"].numpy().tobytes())
        found = sorted(asking.GetIntersection(setup, response))
        if not found:
            raise ValueError(f"{first!r} and {second!r} share no id")
        rows[first] = torch.tensor(found)
        text = "\n".join(its_ids[k] for k in found).encode()
        message = {"shared": torch.from_numpy(np.frombuffer(text, np.uint8).copy())}
    came = channel.send(first, second, "intersection", message)
    if channel.is_here(second):
        place = {each: row for row, each in enumerate(other_ids)}
        shared = came["shared"].numpy().tobytes().decode().split("\n")
        rows[second] = torch.tensor([place[each] for each in shared])
    return rows


def _texts(name: str, ids: Iterable[str]) -> list[str]:
    """The ids of an owner as a list, by position: a shuffled column of pandas has other labels."""
    texts = list(ids)
    if not all(isinstance(each, str) and each and each == each.strip() for each in texts):
        raise TypeError(
            f"ids of {name!r}: give texts without white space at their ends, which both owners "
            "write in the same way: 7, 7.0 and '07' are three ids"
        )
    if isinstance(ids, str | set) or len({*texts}) < len(texts):
        raise ValueError(f"ids of {name!r}: give them in an order, each once")
    return texts


def _tree(**messages: Any) -> Tree:
    """Messages of the package as bytes."""
    return {
        name: torch.from_numpy(np.frombuffer(m.SerializeToString(), np.uint8).copy())
        for name, m in messages.items()
    }


def _psi() -> Any:
    try:
        import private_set_intersection.python as psi
    except ImportError as error:
        raise ImportError(
            'private set intersection needs openmined-psi: pip install "fltoolkit[intersection]". '
            "There are wheels for Linux on x86-64 with Python 3.10 to 3.13"
        ) from error
    return psi
