"""Places: which values of several tensors to keep, and how a sparse entry travels.

A place is the number of a value. The count goes through all tensors, one after the other, and does
not begin again at 0 in the next tensor. Places are stored in ascending order. The ``scope`` says
whether all float entries of a tree are made sparse together, or each entry alone. The result is one
main entry that holds the k kept values, unchanged, so that a later stage sees only these values.
Beside it there are two entries of side information:

    "@"  which places were kept, of all n: `Indices`
    ":"  names and shapes, written as in a frame's header (fltoolkit/wire.py): uint8; none where
         the shape is (n,) and the name is the main entry's own

Decoding makes a message larger: k values become n. Before the receiver allocates memory, it checks
that its own fraction gives k of n values, and that n values are allowed (fltoolkit/wire.py).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fltoolkit.arrays import Array
from fltoolkit.codecs.stage import SEPARATOR, Indices, Parts, expect_values, floats, is_main, side
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError, check_num_values, read_layout, write_layout

PLACES, LAYOUT = "@:"  # names of side information: see above
SAMPLE = 16_384  # how many magnitudes are sampled to guess where the top k begin
RUN = 8  # sampled values side by side: memory is read 16 floats at a time, so this is as fast
BLOCK = 262_144  # how many values are worked on at a time: blocks stay in the cache
TINY = np.int32(1).view(np.float32)  # the smallest magnitude that is not zero

Shape = tuple[int, ...]
Choose = Callable[[list[Tensor], int], tuple[Array, Array]]  # places of n, and the values there
Allowed = Callable[[Sequence[Shape]], set[int]]  # how many values may be kept of such tensors


def largest(tensors: Sequence[Tensor], k: int) -> tuple[Array, Array]:
    """The k places of largest magnitude in all (float32) tensors together, and their values.

    The result is exact, and the places are sorted. Of values with equal magnitude, the values that
    come first are taken. Sorting everything is slow, and so is `torch.topk`. Instead: (1) a sample
    gives a magnitude that most likely a few more than k values reach; (2) one pass collects these
    values; (3) the top k are taken from them exactly. If step (2) finds fewer than k values, it is
    repeated with a smaller magnitude, and in the end with all values that are not zero.
    """
    arrays = [flat(tensor) for tensor in tensors]
    if sum(array.size for array in arrays) <= 4 * SAMPLE:  # as one, in fewer steps
        arrays = [np.concatenate(arrays)]
    for floor in _floors(arrays, k):
        places, values = _collect(arrays, floor)
        if len(places) >= k:
            break
    else:  # zeros are added: the first of them are among the first k places
        free = np.ones(k, bool)
        free[places[places < k]] = False
        places = np.sort(np.concatenate([places, np.flatnonzero(free)[: k - len(places)]]))
        return places, take(tensors, places)
    magnitudes = np.abs(values)
    threshold = np.partition(magnitudes, len(places) - k)[len(places) - k]
    keep = magnitudes > threshold
    keep[np.flatnonzero(magnitudes == threshold)[: k - np.count_nonzero(keep)]] = True
    return places[keep], values[keep]


def _floors(arrays: Sequence[Array], k: int) -> Iterator[np.float32]:
    """Three magnitudes: at least k values reach the first one likely, the second almost surely.

    The third is the smallest that is not zero. The first two leave a margin of 3 and of 12 standard
    deviations, as computed for independent samples. Samples of one run (`RUN`) are not independent.
    """
    n = sum(array.size for array in arrays)
    if n > 4 * SAMPLE:
        picks = [np.empty((0, RUN), np.float32)]
        for array in arrays:  # multiples of the golden ratio: even for every row length
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
    """The places and the values of all values whose magnitude is ``floor`` or more."""
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


def take(tensors: Sequence[Tensor], places: Array) -> Array:
    """The values at these places, which must be sorted."""
    arrays = [flat(tensor) for tensor in tensors]
    ends = np.cumsum([array.size for array in arrays])
    pieces = np.split(places, np.searchsorted(places, ends[:-1]))
    return np.concatenate(
        [a[piece - (end - a.size)] for a, piece, end in zip(arrays, pieces, ends, strict=True)]
    )


def put_back(values: Array, places: Array, shapes: Mapping[str, Shape]) -> Tree:
    """The inverse of `take`: tensors of zeros with the values at their places."""
    tree, offset, start, dtype = {}, 0, 0, torch.from_numpy(values[:0]).dtype
    for name, shape in shapes.items():
        tensor = tree[name] = torch.zeros(shape, dtype=dtype)
        end = int(places.searchsorted(offset + tensor.numel()))
        here, start = slice(start, end), end
        tensor.numpy().reshape(-1)[places[here] - offset] = values[here]
        offset += tensor.numel()
    return tree


def flat(tensor: Tensor) -> Array:
    """The values in one dimension."""
    return tensor.detach().reshape(-1).numpy()


def sparsify(parts: Parts, scope: str, choose: Choose) -> Parts:
    """Replace entries by kept values, places and layout, at the position of the first entry."""
    entries = floats(parts)
    groups = {name: {name: tensor} for name, tensor in entries.items()}
    if scope == "model" and entries:
        name = "*"
        while any(key.split(SEPARATOR)[0] == name for key in parts.keys() - entries.keys()):
            name += "*"  # another entry has this name already
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
    """The inverse of `sparsify`: values that were not kept become zeros."""
    received = received_places(parts, scope, allowed)
    plain = parts.keys() - received.keys()
    out: Parts = {}
    for key, part in parts.items():
        name, _, what = key.partition(SEPARATOR)
        if key in received:
            shapes, places = received[key]
            part = expect_values(parts, key)
            if part.shape != places.shape:
                raise WireError(f"entry {key!r}: {tuple(part.shape)} values, {len(places)} places")
            if taken := [each for each in shapes if each in out or each in plain]:
                raise WireError(f"entry {min(taken)!r} is there twice")
            out.update(put_back(part.numpy(), places, shapes))
        elif name not in received or what not in (PLACES, LAYOUT):
            out[key] = part
    return out


def received_places(
    parts: Parts, scope: str, allowed: Allowed
) -> dict[str, tuple[dict[str, Shape], Array]]:
    """The shapes and places of each sparse entry, checked before anything large is allocated."""
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
                f"entry {name!r}: {places.size} places of {indices.size} do not fit {n} "
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
    """Names and shapes of the tensors of a sparse entry: at least one tensor, and none is empty."""
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
