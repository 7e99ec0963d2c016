"""The given characters tell whom to trust: four experts, so that fewer characters are needed."""

from bisect import bisect

import numpy as np

LENGTH, ORDER, WEIGHT, RATE, BITS, LAST = 50_000, 6, 6, 0.003, 16, 16
SHARE, TRUST, RARE, GIVEN = 0.1, (0.8, 0.1, 0.09, 0.01), 0.008, (100, 20, 5, 2, 1)


def owner(me, message):
    text = me.x[:LENGTH].astype(np.uint8).tobytes()
    return "samples", b"" if me.number else coded(text, me.num_classes)


def server(me):
    messages = yield "control", b""
    mixed = Mixed(learned(messages[0], me.num_classes))
    return lambda context: np.log(mixed.after(context.astype(np.uint8).tobytes()))


class Mixed:
    """Four experts, whose weights the given characters tell (Herbster and Warmuth 1998).

    What was learned; the same with what followed each context among the given characters; rare
    characters, such as those in the name of a role, which no owner says; and all characters alike.
    """

    def __init__(self, past):
        self.past, self.known = past, {}
        single = (past.numbers + 1) / (past.numbers + 1).sum()
        rare = np.where(single < RARE, np.sqrt(single), 0)
        self.fixed = [rare / rare.sum(), np.full(past.size, 1 / past.size)]

    def after(self, given):
        trust, followed = np.array(TRUST), {}
        for place, character in enumerate(given):
            experts = self.experts(given[:place], followed)
            for length in range(min(len(GIVEN), place + 1)):
                row = followed.setdefault(given[place - length : place], np.zeros(self.past.size))
                row[character] += 1
            trust = trust * experts[:, character]
            trust = (1 - SHARE) * trust / trust.sum() + SHARE * np.array(TRUST)
        return trust @ self.experts(given, followed)

    def experts(self, given, followed):
        last = given[-LAST:]
        if last not in self.known:
            self.known[last] = self.past.chances(last)
        near = now = self.known[last]
        for length, weight in enumerate(GIVEN[: len(given) + 1]):
            row = followed.get(given[len(given) - length :])
            if row is not None:
                near = (row + weight * near) / (row.sum() + weight)
        return np.array([now, near, *self.fixed])


class Past:
    """What followed each context so far: of no character, of one, and so on up to ORDER.

    Below the longest context a pair counts once for each character that stood before it (Kneser and
    Ney 1995): so a character that only follows one word does not look common.
    """

    def __init__(self, size):
        self.size, self.seen, self.last = size, {}, b""
        self.numbers = np.zeros(size)
        self.shares = np.zeros((ORDER + 1, ORDER + 2))
        # for each longest context that is known: how much each length counts, and the word
        self.shares[:, ORDER:] = 0.8, 0.3

    def chances(self, last=None):
        """Of each character, after the last ones: the logarithms of all lengths, weighted."""
        last = self.last if last is None else last
        chances, self.found, logs = np.full(self.size, 1 / self.size), [], []
        self.known = 0
        for length in range(min(ORDER, len(last)) + 1):
            context = last[len(last) - length :]
            if context not in self.seen:
                self.seen[context] = np.zeros(self.size)
            counts = self.seen[context]
            self.found.append(counts)
            if total := counts.sum():
                weight = WEIGHT * np.count_nonzero(counts)
                chances = (counts + weight * chances) / (total + weight)
                self.known = length
            logs.append(np.log(chances))
        logs += logs[-1:] * (ORDER + 1 - len(logs))
        self.logs = np.array([*logs, self.by_word(last, logs[1])])
        mixed = self.shares[self.known] @ self.logs
        mixed = np.exp(mixed - mixed.max())
        self.mixed = mixed / mixed.sum()
        return self.mixed

    def by_word(self, last, logs):
        """What follows the characters since the last space: the commonest character so far."""
        word = "word", last.split(bytes([self.numbers.argmax()]))[-1]
        if word not in self.seen:
            self.seen[word] = np.zeros(self.size)
        self.word = self.seen[word]
        if not self.word.any():
            return logs
        weight = 2 * np.count_nonzero(self.word)
        return np.log((self.word + weight * np.exp(logs)) / (self.word.sum() + weight))

    def add(self, character):
        """A step of the weights, then a count for each context, down to the first that knew it."""
        self.shares[self.known] += RATE * (self.logs[:, character] - self.logs @ self.mixed)
        for counts in reversed(self.found):
            counts[character] += 1
            if counts[character] > 1:
                break
        self.word[character] += 1
        self.numbers[character] += 1
        self.last = (self.last + bytes([character]))[-LAST:]

    def table(self):
        """What lies below each character, of 2^BITS, and all."""
        often = 1 + ((2**BITS - self.size) * self.chances()).astype(int)
        often[often.argmax()] += 2**BITS - often.sum()
        return [0, *np.cumsum(often).tolist()]


def coded(text, size):
    """Asymmetric numeral systems (Duda 2013, arXiv 1311.2540): the state is one large number."""
    past, steps, state = Past(size), [], 1
    for character in text:
        below = past.table()
        steps.append((below[character], below[character + 1] - below[character]))
        past.add(character)
    for below, often in reversed(steps):
        rest, last = divmod(state, often)
        state = (rest << BITS) + last + below
    return state.to_bytes(-(-state.bit_length() // 8), "little")


def learned(message, size):
    """Decode the text; what is known at its end."""
    past, state = Past(size), int.from_bytes(message, "little")
    for _ in range(LENGTH):
        below, last = past.table(), state & (2**BITS - 1)
        character = bisect(below, last) - 1
        state = (below[character + 1] - below[character]) * (state >> BITS) + last
        state -= below[character]
        past.add(character)
    return past
