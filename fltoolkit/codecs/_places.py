"""Places: which values of several tensors to keep, and how a sparse entry travels.

Not here: the stages that choose (sparse.py).

Places count on from tensor to tensor, and ascend. Sparse, the float entries of a tree (all
together, or each one alone: the ``scope``) are one main entry, the k kept values as they are, so
that a later stage sees only them, and beside it

    "@"  which places were kept, of all n: `Indices`
    ":"  names and shapes, written as in a frame's header (wire.py): uint8; none where the shape
         is (n,) and the name is the main entry's own

Decoding makes a message larger: k values become n. The receiver knows the fraction, so it checks
that k belongs to n, and that n values are allowed (wire.py), before it allocates anything.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fltoolkit.codecs.stage import SEPARATOR, Indices, Parts, expect_finite, floats, is_main, side
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError, check_num_values, read_layout, write_layout

__all__ = [
    "densify",
    "largest",
    "largest_in_rows",
    "largest_plain",
    "random_places",
    "received_places",
    "shapes_behind",
    "sparsify",
    "spread",
    "take",
]

PLACES, LAYOUT = "@:"  # names of side information: see above
SAMPLE = 16_384  # magnitudes looked at to guess where the top k begin
RUN = 8  # of them side by side: memory hands over 16 floats at once, and each look costs the same
BLOCK = 262_144  # values at a time: blocks stay in the cache
MAGNITUDE = 0x7FFF_FFFF  # a float32 without its sign, read as an integer, sorts by magnitude
TINY = np.int32(1).view(np.float32)  # the smallest magnitude that is not zero

Array = NDArray[Any]
Shape = tuple[int, ...]
Choose = Callable[[list[Tensor], int], tuple[Array, Array]]  # places of n, and the values there
Allowed = Callable[[Sequence[Shape]], set[int]]  # how many values may be kept of such tensors


def largest_plain(tensors: Sequence[Tensor], k: int) -> Array:
    """What `largest` does, in the plainest way."""
    magnitudes = np.abs(np.concatenate([_flat(tensor) for tensor in tensors]))
    return np.sort(np.argsort(-magnitudes, kind="stable")[:k])


def largest(tensors: Sequence[Tensor], k: int) -> tuple[Array, Array]:
    """The k places of largest magnitude in all (float32) tensors together, ascending, exactly.

    And the values there. Places count on from tensor to tensor. Among equal magnitudes the first
    win.

    Sorting everything is slow, and so is `torch.topk`. Instead: (1) a sample tells a magnitude
    that most likely a few more than k values reach; (2) one pass collects those; (3) the top k are
    taken from them exactly. Where the sample misled, (2) is repeated with a smaller magnitude, in
    the end with all that is not zero.
    """
    arrays = [_flat(tensor) for tensor in tensors]
    for floor in _floors(arrays, k):
        places, values = _collect(arrays, floor)
        if len(places) >= k:
            break
    else:  # the first zeros fill up: all of them are among the first k places
        free = np.ones(k, bool)
        free[places[places < k]] = False
        places = np.sort(np.concatenate([places, np.flatnonzero(free)[: k - len(places)]]))
        return places, take(tensors, places)
    magnitudes = np.abs(values)
    threshold = np.partition(magnitudes, len(places) - k)[len(places) - k]
    keep = magnitudes > threshold
    keep[np.flatnonzero(magnitudes == threshold)[: k - np.count_nonzero(keep)]] = True
    return places[keep], values[keep]


def largest_in_rows(tensor: Tensor, k: int) -> tuple[Array, Array]:
    """The columns of the k largest magnitudes in each row, and of all others, both ascending.

    A row is the last dimension. Among equal magnitudes the first win.
    """
    d = tensor.shape[-1] if tensor.dim() else 1
    magnitudes = (_flat(tensor).view(np.int32) & MAGNITUDE).reshape(-1, d).astype(np.int64)
    ranks = (magnitudes << 32) - np.arange(d)  # no two alike: the first of equals ranks higher
    order = np.argpartition(ranks, d - k, axis=1)
    return np.sort(order[:, d - k :], axis=1), np.sort(order[:, : d - k], axis=1)


def _floors(arrays: Sequence[Array], k: int) -> Iterator[np.float32]:
    """Magnitudes that at least k values reach: likely, almost surely, and the least of all.

    If samples were independent: with 3 and 12 standard deviations to spare. Those of a run are not.
    """
    n = sum(array.size for array in arrays)
    if n > 4 * SAMPLE:
        picks = [np.empty((0, RUN), np.float32)]
        for array in arrays:  # multiples of the golden ratio: even, in step with no row length
            runs = array[: array.size // RUN * RUN].reshape(-1, RUN)
            steps = np.arange(math.ceil(SAMPLE * len(runs) / n)) * 0.6180339887498949
            starts = ((steps - np.floor(steps)) * len(runs)).astype(np.int64)
            picks.append(runs.take(starts, axis=0))
        sample = np.abs(np.concatenate(picks)).reshape(-1)
        expected = k * len(sample) / n
        for spare in (3, 12):
            rank = len(sample) - int(expected + spare * (math.sqrt(expected) + 1))
            if rank >= 0 and (floor := np.partition(sample, rank)[rank]) > TINY:
                yield floor
    yield TINY


def _collect(arrays: Sequence[Array], floor: np.float32) -> tuple[Array, Array]:
    """Places and values of all whose magnitude reaches ``floor``."""
    places, values, offset = [], [], 0
    positive, hit = np.empty(BLOCK, np.float32), np.empty(BLOCK, bool)
    for array in arrays:
        for start in range(0, array.size, BLOCK):
            block = array[start : start + BLOCK]
            np.abs(block, out=positive[: block.size])
            np.greater_equal(positive[: block.size], floor, out=hit[: block.size])
            near = np.flatnonzero(hit[: block.size])
            values.append(block[near])
            near += offset + start
            places.append(near)
        offset += array.size
    return np.concatenate(places), np.concatenate(values)


def random_places(seed: int, n: int, k: int) -> Array:
    """k of n places, each set of k equally likely, ascending.

    Drawn with replacement until k (or n - k: the places left out) are different. From raw bits:
    numpy promises to keep those the same in later versions, unlike ``Generator.choice``.
    """
    bits = np.random.SFC64(seed)
    wanted = min(k, n - k)
    drawn = np.zeros(n, bool)
    while missing := wanted - np.count_nonzero(drawn):
        unit = (bits.random_raw(missing) >> np.uint64(12)) * 2.0**-52
        drawn[(unit * n).astype(np.int64)] = True
    return np.flatnonzero(drawn if wanted == k else ~drawn)


def take(tensors: Sequence[Tensor], places: Array) -> Array:
    """The values at ascending places."""
    arrays = [_flat(tensor) for tensor in tensors]
    ends = np.cumsum([array.size for array in arrays])
    pieces = np.split(places, np.searchsorted(places, ends[:-1]))
    return np.concatenate(
        [a[piece - (end - a.size)] for a, piece, end in zip(arrays, pieces, ends, strict=True)]
    )


def spread(values: Array, places: Array, shapes: Mapping[str, Shape]) -> Tree:
    """The inverse of `take`: zeros, and the values at their places."""
    tree, offset, dtype = {}, 0, torch.from_numpy(values[:0]).dtype
    for name, shape in shapes.items():
        tensor = tree[name] = torch.zeros(shape, dtype=dtype)
        here = slice(*np.searchsorted(places, [offset, offset + tensor.numel()]))
        tensor.numpy().reshape(-1)[places[here] - offset] = values[here]
        offset += tensor.numel()
    return tree


def _flat(tensor: Tensor) -> Array:
    return tensor.detach().reshape(-1).numpy()


def sparsify(parts: Parts, scope: str, choose: Choose) -> Parts:
    """Entries become kept values, places and layout, where the first of them was."""
    entries = floats(parts)
    groups = {name: {name: tensor} for name, tensor in entries.items()}
    if scope == "model" and entries:
        name = "*"
        while any(key.split(SEPARATOR)[0] == name for key in parts.keys() - entries.keys()):
            name += "*"  # something with that name passes through
        groups = {name: entries}
    names = {next(iter(group)): name for name, group in groups.items()}
    out: Parts = {}
    for key, part in parts.items():
        if key in names:
            name, tensors = names[key], list(groups[names[key]].values())
            if side(name, PLACES) in parts:
                raise ValueError(f"entry {name!r} is sparse already: one such stage is enough")
            n = sum(tensor.numel() for tensor in tensors)
            places, values = choose(tensors, n)
            out[name] = torch.from_numpy(values)
            shapes = tuple(tuple(tensor.shape) for tensor in tensors)
            out[side(name, PLACES)] = Indices(torch.from_numpy(places), n, shapes)
            if scope == "model":
                out[side(name, LAYOUT)] = _layout(entries)
            elif tensors[0].dim() != 1:
                out[side(name, LAYOUT)] = _layout({"": tensors[0]})
        elif key not in entries:
            out[key] = part
    return out


def densify(parts: Parts, scope: str, allowed: Allowed) -> Parts:
    """The inverse of `sparsify`, up to what was not kept."""
    received = received_places(parts, scope, allowed)
    out: Parts = {}
    for key, part in parts.items():
        name, _, what = key.partition(SEPARATOR)
        if key in received:
            shapes, places = received[key]
            if not isinstance(part, Tensor) or part.dtype != torch.float32:
                raise WireError(f"entry {key!r}: expected float32 values")
            if part.shape != places.shape:
                raise WireError(f"entry {key!r}: {tuple(part.shape)} values, {len(places)} places")
            if taken := shapes.keys() & (out.keys() | parts.keys() - received.keys()):
                raise WireError(f"entry {min(taken)!r} is there twice")
            expect_finite({key: part})
            out.update(spread(part.numpy(), places, shapes))
        elif name not in received or what not in (PLACES, LAYOUT):
            out[key] = part
    return out


def received_places(
    parts: Parts, scope: str, allowed: Allowed
) -> dict[str, tuple[dict[str, Shape], Array]]:
    """Shapes and places behind each sparse entry, checked before anything large is made."""
    received: dict[str, tuple[dict[str, Shape], Array]] = {}
    total = 0
    for name in filter(is_main, parts):
        indices = parts.get(side(name, PLACES))
        if indices is None and name not in floats(parts):
            continue
        if not isinstance(indices, Indices) or indices.values.dtype != torch.int64:
            raise WireError(f"entry {name!r} came without its places: another codec made it")
        shapes, places = shapes_behind(parts, scope, name), indices.values.numpy()
        n = sum(map(math.prod, shapes.values()))
        check_num_values(total := total + n)
        if scope == "model" and received:
            raise WireError(f"entry {name!r}: expected one entry for all values, found two")
        if indices.size != n or places.shape not in {(k,) for k in allowed([*shapes.values()])}:
            raise WireError(
                f"entry {name!r}: {places.size} places of {indices.size} do not go with {n} "
                f"values in {len(shapes)} tensors and this codec's fraction"
            )
        if places[0] < 0 or places[-1] >= n or not bool((places[1:] > places[:-1]).all()):
            raise WireError(f"entry {name!r}: places must ascend from 0 to less than {n}")
        received[name] = shapes, places
    return received


def _layout(entries: Tree) -> Tensor:
    """Names and shapes, as in a frame's header."""
    layout = write_layout(tuple((name, t.dtype, tuple(t.shape)) for name, t in entries.items()))
    return torch.from_numpy(np.frombuffer(layout, np.uint8).copy())


def shapes_behind(parts: Parts, scope: str, name: str) -> dict[str, Shape]:
    """Names and shapes of the tensors behind a sparse entry: at least one, none empty."""
    layout, indices = parts.get(side(name, LAYOUT)), parts.get(side(name, PLACES))
    if layout is None and scope == "tensor" and isinstance(indices, Indices) and indices.size > 0:
        return {name: (indices.size,)}
    if not isinstance(layout, Tensor) or layout.dtype != torch.uint8:
        raise WireError(f"entry {name!r} came without its layout")
    entries, _ = read_layout(layout.numpy().tobytes())
    shapes = {(key if scope == "model" else name): shape for key, _, shape, _ in entries}
    good = all(dtype == torch.float32 and n and is_main(key) for key, dtype, _, n in entries)
    if not shapes or not good or len(shapes) != len(entries):
        raise WireError(f"entry {name!r}: expected names and shapes in float32, found {entries}")
    return shapes
