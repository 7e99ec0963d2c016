"""The word so far is a context, too: what follows it is mixed with the other chances."""

from bisect import bisect

import numpy as np

LENGTH, ORDER, WEIGHT, RATE, BITS, LAST, SOFT = 105_000, 6, 6, 0.003, 16, 64, 0.85


def owner(me, message):
    text = me.x[:LENGTH].astype(np.uint8).tobytes()
    return "samples", b"" if me.number else coded(text, me.num_classes)


def server(me):
    messages = yield "control", b""
    past = learned(messages[0], me.num_classes)
    return lambda context: SOFT * np.log(past.chances(context.astype(np.uint8).tobytes()))


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
