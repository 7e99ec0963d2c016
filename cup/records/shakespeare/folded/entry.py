"""Capitals are small letters elsewhere: owners say which, and contexts and names of roles use it."""

from bisect import bisect
from collections import Counter

import numpy as np

LENGTH, BITS, LAST, OFTEN, ALIKE = 34_000, 16, 20, 0.008, (0.05, 0.4)
ORDER, FOLDED, WEIGHT, START, RATE = 3, (3, 4, 5, 6), (1, 4, 3, 1), 0.04, (0.002, 0.02)
SHARE, TRUST, NAMED, RARE = 0.1, (0.8, 0.1, 0.09, 0.01), (0.1, 0.1, 0.79, 0.01), 0.25
FROM, GIVEN, SAID = 24, (100, 20, 5, 2, 1), (8, 3, 1)


def owner(me, message):
    if me.number:
        return "samples", b""
    text = me.x.astype(np.uint8).tobytes()
    return "samples", coded(text[:LENGTH], fold(text, me.num_classes))


def server(me):
    messages = yield "control", b""
    mixed = Mixed(learned(messages[0], me.num_classes))
    return lambda context: np.log(mixed.after(context.astype(np.uint8).tobytes()))


def fold(text, size):
    """For each character one that has the same after it.

    For a rare one that is a commoner one. In the second turn, where capitals are folded, it is the
    commonest of all, which is the space, for those that are like it: the end of a line, and "-".
    """
    often = np.bincount(np.frombuffer(text, np.uint8), minlength=size)
    folded, space = bytes(range(size)), int(often.argmax())
    for turn, least in enumerate(ALIKE):
        after, now = [Counter() for _ in range(size)], translated(text, folded)
        for k in range(len(text) - 4):
            after[text[k]][now[k + 1 : k + 4]] += 1
        changed = list(folded)
        for one in range(size):
            others = [each for each in range(size) if often[each] > 2 * often[one]]
            others = [space] if turn else others
            likes = [(alike(after[one], after[other]), other) for other in others]
            wanted = folded[one] == one != space if turn else often[one] < OFTEN * len(text)
            if wanted and max(likes)[0] > least:
                changed[one] = max(likes)[1]
        folded = bytes(changed)
    return folded


def alike(one, other):
    """The cosine between the roots of two counts."""
    both = sum((number * other[string]) ** 0.5 for string, number in one.items())
    return both / (1 + one.total() * other.total()) ** 0.5


def translated(text, folded):
    return text.translate(folded + bytes(256 - len(folded)))


class Mixed:
    """Four experts, whose weights the given characters tell (Herbster and Warmuth 1998).

    What was learned; the same with what followed each context among the given characters; the same
    in capitals, for the names of roles, which no owner says; and all characters alike. After an
    empty line the name of a role is likely.
    """

    def __init__(self, past):
        self.past, self.known = past, {}
        size, numbers, space = past.size, past.numbers, past.space()
        folded = self.folded = np.frombuffer(past.folded, np.uint8)
        capital = (folded != np.arange(size)) & (folded != space)
        line = np.where(folded == space, numbers, 0)
        line[space] = 0
        self.empty = bytes([line.argmax()]) * 2
        of = np.where(capital, numbers + 1, 0)
        small = np.bincount(folded, of, size)[:size] > 0
        of = np.where(capital, of, np.where(small, 0, numbers + 0.01))
        self.of = of / np.maximum(np.bincount(folded, of, size), 0.01)[folded]
        rare = np.sqrt((numbers + 1) * (numbers < OFTEN * numbers.sum()))
        self.rare, self.flat = rare / rare.sum(), np.full(size, 1 / size)

    def after(self, given):
        low = translated(given, self.past.folded)
        trust, followed, said = np.array(TRUST), {}, {}
        for place, character in enumerate(given):
            if place >= FROM:
                experts = self.experts(given[:place], low[:place], followed, said)
                trust = self.trusted(trust, given[:place]) * experts[:, character]
                trust = (1 - SHARE) * trust / trust.sum() + SHARE * np.array(TRUST)
            for length in range(min(len(GIVEN), place + 1)):
                count(followed, given[place - length : place], character, self.past.size)
            for length in range(3, min(3 + len(SAID), place + 1)):
                count(said, low[place - length : place], low[place], self.past.size)
        return self.trusted(trust, given) @ self.experts(given, low, followed, said)

    def trusted(self, trust, given):
        return np.array(NAMED) if given.endswith(self.empty) else trust

    def experts(self, given, low, followed, said):
        last = given[-LAST:]
        if last not in self.known:
            self.known[last] = self.past.chances(last)
        near = now = self.known[last]
        for length, weight in enumerate(GIVEN):
            near = with_counts(followed.get(given[len(given) - length :]), near, weight)
        letters = np.bincount(self.folded, now, self.past.size)
        for length, weight in enumerate(SAID, 3):
            letters = with_counts(said.get(low[len(low) - length :]), letters, weight)
        capitals = letters[self.folded] * self.of
        capitals = (1 - RARE) * capitals / capitals.sum() + RARE * self.rare
        return np.array([now, near, capitals, self.flat])


def count(rows, context, character, size):
    if context not in rows:
        rows[context] = np.zeros(size)
    rows[context][character] += 1


def with_counts(row, chances, weight):
    return chances if row is None else (row + weight * chances) / (row.sum() + weight)


class Past:
    """What followed each context so far, in three chains from short contexts to long ones.

    Of characters as they are; of folded ones; and the word so far, then with the word before.
    Below the longest context a pair counts once for each character that stood before it (Kneser and
    Ney 1995). The logarithms of all contexts are added with weights, which the longest context that
    is known chooses in each chain (logistic mixing, Mahoney 2005).
    """

    def __init__(self, size, folded):
        self.size, self.folded, self.rows, self.last = size, folded, {}, b""
        self.numbers, self.flat, self.steps = np.zeros(size), np.full(size, 1 / size), 0
        lengths = ORDER + 1, len(FOLDED), 2
        self.weights = [np.full((length + 1, sum(lengths)), START) for length in lengths]

    def space(self):
        return int(self.numbers.argmax())

    def chains(self, last):
        low = translated(last, self.folded)
        words = [b"", *low.split(bytes([self.space()]))][-2:]
        raw = [last[len(last) - length :] for length in range(min(ORDER, len(last)) + 1)]
        raw += range(ORDER + 1 - len(raw))
        return raw, [(low[-length:], length) for length in FOLDED], [words[1], tuple(words)]

    def chances(self, last=None):
        """Of each character, after the last ones."""
        base, found, self.used, self.chain = self.flat, [], [], []
        for contexts, weight, weights in zip(
            self.chains(self.last if last is None else last), WEIGHT[1:], self.weights, strict=True
        ):
            chances, known, rows = base, 0, []
            for place, context in enumerate(contexts):
                key = weight, context
                if key not in self.rows:
                    self.rows[key] = np.zeros(self.size + 2)
                row = self.rows[key]
                rows.append(row)
                if row[-2]:
                    heavy = weight * row[-1]
                    chances = (row[:-2] + heavy * chances) / (row[-2] + heavy)
                    known = place + 1
                found.append(chances)
            base = found[1]
            self.used.append(weights[known])
            self.chain.append(rows)
        self.logs = np.log(np.array(found))
        mixed = (sum(self.used)[:, None] * self.logs).sum(0)
        mixed = np.exp(mixed - mixed.max())
        self.mixed = mixed / mixed.sum()
        return self.mixed

    def add(self, character):
        """A step of the weights, then a count for each context, down to the first that knew it."""
        self.steps += 1
        step = self.logs[:, character] - (self.logs * self.mixed).sum(1)
        for weights in self.used:
            weights += max(RATE[0], RATE[1] / self.steps**0.5) * step
        for rows in self.chain:
            for row in reversed(rows):
                row[-2] += 1
                row[character] += 1
                if row[character] > 1:
                    break
                row[-1] += 1
        self.numbers[character] += 1
        self.last = (self.last + bytes([character]))[-LAST:]

    def table(self):
        """What lies below each character, of 2^BITS, and all."""
        often = 1 + ((2**BITS - self.size) * self.chances()).astype(int)
        often[often.argmax()] += 2**BITS - often.sum()
        return [0, *np.cumsum(often).tolist()]


def coded(text, folded):
    """Asymmetric numeral systems (Duda 2013, arXiv 1311.2540): the state is one large number."""
    past, steps, state = Past(len(folded), folded), [], 1
    for character in text:
        below = past.table()
        steps.append((below[character], below[character + 1] - below[character]))
        past.add(character)
    for below, often in reversed(steps):
        rest, last = divmod(state, often)
        state = (rest << BITS) + last + below
    for each in reversed(folded):
        state = state * past.size + each
    return state.to_bytes(-(-state.bit_length() // 8), "little")


def learned(message, size):
    """Decode what is folded, then the text; what is known at its end."""
    state, folded = int.from_bytes(message, "little"), []
    for _ in range(size):
        state, each = divmod(state, size)
        folded.append(each)
    past = Past(size, bytes(folded))
    for _ in range(LENGTH):
        below, last = past.table(), state & (2**BITS - 1)
        character = bisect(below, last) - 1
        state = (below[character + 1] - below[character]) * (state >> BITS) + last
        state -= below[character]
        past.add(character)
    return past
