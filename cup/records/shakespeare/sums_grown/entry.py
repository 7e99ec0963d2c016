"""A tree of strings grows with each sum: owners count only what the sums before make likely."""

import zlib
from collections import Counter

import numpy as np

LENGTHS, FIRST, BITS, LEAST, STEP, BACK, GRAIN = 6, 8, 5, 1.75, 6, 5, 2
SHARE, TRUST, RARE, GIVEN = 0.1, (0.8, 0.1, 0.09, 0.01), 0.008, (100, 20, 5, 2, 1)


def owner(me, message):
    """For each string that is asked for: how far the root of its count is from what is likely.

    Roots, because a common string then needs no more bits than a rare one for the same precision.
    """
    if not message:
        me.tree, me.strings = {}, []
    me.strings, likely = asked(me.tree, me.strings, message, me.num_classes)
    text, length = me.x.astype(np.uint8).tobytes(), len(me.strings[0])
    said = Counter(text[k : k + length] for k in range(len(text)))
    roots = np.sqrt([said[string] / STEP for string in me.strings])
    bits = BITS if message else FIRST
    half = 0 if likely is None else 2 ** (bits - 1)
    far = np.round(roots - likely) if half else np.round(roots)
    far = far.clip(-(half // me.num_owners), (2**bits - half - 1) // me.num_owners)
    return "update", far.astype(int), bits


def server(me):
    """Send the sums back, rounded, so that all know which longer strings are likely."""
    known, tree, strings, message = {}, {}, [], b""
    for _ in range(LENGTHS):
        total = yield "control", message
        strings, likely = asked(known, strings, message, me.num_classes)
        if likely is None:
            roots = total / me.num_owners
        else:
            half = 2 ** (BITS - 1)
            roots = likely + ((total + half) % 2**BITS - half) / me.num_owners
        roots = np.maximum(roots, 0)
        put(tree, strings, roots, me.num_classes)
        levels = np.round(GRAIN * np.log2(1 + roots)).astype(np.uint8)
        message = zlib.compress(levels.tobytes(), 9)
    mixed = Mixed(tree, me.num_classes)
    return lambda context: np.log(mixed.after(context.astype(np.uint8).tobytes()))


def put(tree, strings, roots, size):
    """Counts per owner, in a row for each string: of each next character, or not known."""
    for string, root in zip(strings, roots, strict=True):
        row = tree.setdefault(string[:-1], np.full(size, np.nan))
        row[string[-1]] = STEP * root**2


def asked(tree, strings, message, size):
    """What is counted next, and the roots that are likely: at first all characters."""
    if not message:
        return [bytes([character]) for character in range(size)], None
    levels = np.frombuffer(zlib.decompress(message), np.uint8)
    put(tree, strings, 2 ** (levels / GRAIN) - 1, size)
    found, roots = [], []
    for string in strings:
        likely = tree[string[:-1]][string[-1]] * chances(tree, string[1:], size)
        often = np.flatnonzero(likely > LEAST)
        found += [string + bytes([character]) for character in often.tolist()]
        roots += np.sqrt(likely[often] / STEP).tolist()
    return found, np.array(roots)


def chances(tree, context, size):
    """From short contexts to long ones: counts, mixed with the chances after the shorter context.

    What was not asked for keeps the count that the shorter context makes likely.
    """
    now = np.full(size, 1 / size)
    for length in range(min(len(context), LENGTHS - 1) + 1):
        last = context[len(context) - length :]
        if last in tree:
            row = tree[last]
            whole = tree[last[:-1]][last[-1]] if last else row.sum()
            row = np.where(np.isnan(row), whole * now, row) + BACK * now
            now = row / row.sum()
    return now


class Mixed:
    """Four experts, whose weights the given characters tell (Herbster and Warmuth 1998).

    The tree; the tree with what followed each context among the given characters; rare characters,
    such as those in the name of a role, which no owner says; and all characters alike.
    """

    def __init__(self, tree, size):
        self.tree, self.size, self.found = tree, size, {}
        single = chances(tree, b"", size)
        rare = np.where(single < RARE, np.sqrt(single), 0)
        self.fixed = [rare / rare.sum(), np.full(size, 1 / size)]

    def after(self, given):
        trust, followed = np.array(TRUST), {}
        for place, character in enumerate(given):
            experts = self.experts(given[:place], followed)
            for length in range(min(len(GIVEN), place + 1)):
                row = followed.setdefault(given[place - length : place], np.zeros(self.size))
                row[character] += 1
            trust = trust * experts[:, character]
            trust = (1 - SHARE) * trust / trust.sum() + SHARE * np.array(TRUST)
        return trust @ self.experts(given, followed)

    def experts(self, given, followed):
        last = given[-LENGTHS:]
        if last not in self.found:
            self.found[last] = chances(self.tree, last, self.size)
        near = now = self.found[last]
        for length, weight in enumerate(GIVEN[: len(given) + 1]):
            row = followed.get(given[len(given) - length :])
            if row is not None:
                near = (row + weight * near) / (row.sum() + weight)
        return np.array([now, near, *self.fixed])
