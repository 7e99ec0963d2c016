"""The ideas of the course, a drawing each: what travels, who keeps what, what is lost.

Each function takes nothing and gives a `Drawing` whose title says it in a sentence, for readers and
for those who hear it. As the last line of a cell it shows itself; `Drawing.dark` is the edition for
dark pages. Not here: charts of what was measured (figures.py).
"""

import math
from collections.abc import Iterator, Sequence

from fltoolkit.plots.drawing import Box, Drawing, Mark, Points, Stroke, Words, symbol
from fltoolkit.plots.style import COLORS, DARK_GREY, GREY, INK, PALE, PAPER

__all__ = [
    "attacker",
    "cut",
    "engines",
    "federated_round",
    "front",
    "local_steps",
    "private_data",
    "rounding",
    "sparse_choices",
    "states",
    "top_k",
    "topologies",
    "transformer_cut",
]

UP, DOWN, MODEL, LABEL = COLORS[:4]  # activations and updates, gradients, models, labels
SIZE = 14  # pixels: of all words
_THREE = (
    "..####..",
    ".##..##.",
    ".....##.",
    "...###..",
    ".....##.",
    "......##",
    ".##..##.",
    "..####..",
)


# ---------------------------------------------------------------------------------- shared shapes


def _say(
    x: float,
    y: float,
    words: str,
    anchor: str = "middle",
    *,
    bold: bool = False,
    halo: bool = False,
) -> Words:
    """Words in ink, never in a mark's colour: then they are read on either paper."""
    return Words(x, y, words, anchor, SIZE, INK, bold, halo)


def _rounded(x: float, y: float, width: float, height: float, radius: float = 8) -> Points:
    """The outline of a box with round corners."""
    centers = (
        (x + width - radius, y + radius, -90),
        (x + width - radius, y + height - radius, 0),
        (x + radius, y + height - radius, 90),
        (x + radius, y + radius, 180),
    )
    turns = [(cx, cy, math.radians(a + 15 * k)) for cx, cy, a in centers for k in range(7)]
    outline = [(cx + radius * math.cos(a), cy + radius * math.sin(a)) for cx, cy, a in turns]
    return [*outline, outline[0]]


def _house(
    x: float, y: float, width: float, height: float, name: str = "", color: str = DARK_GREY
) -> Iterator[Mark]:
    """Where somebody keeps things: a box with the name of its owner at the top."""
    yield Stroke(_rounded(x, y, width, height), color, 1.5, fill=PAPER)
    if name:
        yield _say(x + width / 2, y + 21, name, bold=True)


def _block(
    x: float, y: float, width: float, height: float, words: str, color: str
) -> Iterator[Mark]:
    """Something that computes or is kept: a tinted box with words in its middle."""
    outline = _rounded(x, y, width, height, 6)
    yield Stroke(outline, "none", 0, fill=color, opacity=0.18)
    yield Stroke(outline, color, 1.5)
    yield _say(x + width / 2, y + height / 2 + 5, words)


def _arrow(points: Points, color: str, width: float = 2.5) -> Iterator[Mark]:
    """A line with a head at its end."""
    *before, (x, y) = points
    angle = math.atan2(y - before[-1][1], x - before[-1][0])
    size = 4 + 2.6 * width
    cos, sin = math.cos(angle), math.sin(angle)
    neck = x - 0.8 * size * cos, y - 0.8 * size * sin
    sides = [(-size * cos - k * size / 2 * sin, -size * sin + k * size / 2 * cos) for k in (1, -1)]
    yield Stroke([*before, neck], color, width)
    (ax, ay), (bx, by) = sides
    head = [(x + ax, y + ay), (x, y), (x + bx, y + by), (x + ax, y + ay)]
    yield Stroke(head, color, 0.5, fill=color)


def _bend(start: tuple[float, float], by: tuple[float, float], end: tuple[float, float]) -> Points:
    """A curve from start to end that is drawn towards ``by``."""
    parts = [k / 20 for k in range(21)]
    return [
        tuple(
            (1 - t) ** 2 * a + 2 * t * (1 - t) * b + t * t * c
            for a, b, c in zip(start, by, end, strict=True)
        )  # type: ignore[misc]
        for t in parts
    ]


def _layers(x: float, middle: float, heights: Sequence[float], gap: float) -> Iterator[Mark]:
    """Layers of a network from left to right: bars, and between them what connects them."""
    places = [x + k * gap for k in range(len(heights))]
    for (a, high), (b, low) in zip(
        zip(places, heights, strict=True), list(zip(places, heights, strict=True))[1:], strict=False
    ):
        corners = [
            (a, middle - high / 2), (b, middle - low / 2), (b, middle + low / 2),
            (a, middle + high / 2), (a, middle - high / 2),
        ]  # fmt: skip
        yield Stroke(corners, "none", 0, fill=PALE)
    for place, height in zip(places, heights, strict=True):
        outline = _rounded(place - 5, middle - height / 2, 10, height, 4)
        yield Stroke(outline, DARK_GREY, 1, fill=GREY)


def _image(x: float, y: float, size: float, blur: bool = False) -> Iterator[Mark]:
    """A handwritten 3 of eight by eight pixels; with ``blur`` as an attacker rebuilds it."""
    ink = {(i, j): float(dot == "#") for i, row in enumerate(_THREE) for j, dot in enumerate(row)}
    if blur:
        near = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
        ink = {
            (i, j): sum((1 + 3 * (a == b == 0)) * ink.get((i + a, j + b), 0) for a, b in near) / 12
            for i, j in ink
        }
    pixel = size / 8
    for (i, j), depth in ink.items():
        if depth:
            yield Box(x + j * pixel, y + i * pixel, pixel, pixel, INK, round(depth, 2))
    yield Stroke(_rounded(x - 3, y - 3, size + 6, size + 6, 4), DARK_GREY, 1)


def _small(x: float, y: float, name: str, width: float = 62, color: str = DARK_GREY) -> list[Mark]:
    """A party in a drawing of many: a box with its name."""
    return [
        Stroke(_rounded(x - width / 2, y - 15, width, 30, 6), color, 1.5, fill=PAPER),
        _say(x, y + 5, name),
    ]


# ----------------------------------------------------------------------------------- the drawings


def cut() -> Drawing:
    """Notebooks 00 and 01: a network cut in two, and what crosses.

    >>> cut().title.split(";")[0]
    'Alice sends activations across the cut, and Bob sends gradients back'
    """
    title = (
        "Alice sends activations across the cut, and Bob sends gradients back; "
        "the images stay with Alice and the labels with Bob."
    )
    marks = [
        *_house(10, 30, 290, 190, "Alice"),
        *_house(420, 30, 290, 190, "Bob"),
        *_image(34, 94, 64),
        *_arrow([(108, 126), (142, 126)], DARK_GREY, 1.5),
        *_layers(160, 126, (64, 84, 110), 55),
        *_layers(460, 126, (110, 84, 40), 55),
        *_arrow([(586, 126), (616, 126)], DARK_GREY, 1.5),
        _say(646, 122, "is it"),
        _say(646, 142, "a 3?"),
        Stroke([(360, 24), (360, 222)], INK, 2, (4, 3)),
        _say(360, 16, "the cut", bold=True),
        *_arrow([(286, 96), (444, 96)], UP, 3),
        *_arrow([(444, 158), (286, 158)], DOWN, 3),
        _say(360, 86, "activations", bold=True, halo=True),
        _say(360, 180, "gradients", bold=True, halo=True),
        _say(155, 208, "the images never leave"),
        _say(565, 208, "the labels never leave"),
    ]
    return Drawing(720, 232, title, marks)


def topologies() -> Drawing:
    """Notebook 02: who speaks to whom, in four figures.

    >>> topologies().title.split(";")[0]
    'Four ways to share one cut network: in relay the clients take turns and hand on the bottom'
    """
    title = (
        "Four ways to share one cut network: in relay the clients take turns and hand on "
        "the bottom; in SplitFed they work at the same time and their bottoms are averaged; "
        "in the U-shape the last layers stay with the client too, so labels never leave; "
        "in vertical splitting each owner has other features of the same people."
    )
    marks: list[Mark] = []
    for column, (name, below) in enumerate(
        (
            ("relay", "one after the other"),
            ("SplitFed", "all at once, then a mean"),
            ("U-shape", "the labels stay too"),
            ("vertical", "other features each"),
        )
    ):
        middle = 95 + 190 * column
        marks += [
            Stroke(_rounded(middle - 89, 6, 178, 236), PALE, 1.5),
            _say(middle, 30, name, bold=True),
            _say(middle, 230, below),
        ]
    for column, width in ((0, 74), (1, 156), (3, 120)):
        marks += _small(95 + 190 * column, 62, "server", width)
    # relay: one client speaks, its bottom goes on to the next
    marks += [*_arrow([(33, 148), (72, 80)], UP), *_arrow([(84, 80), (45, 148)], DOWN)]
    for number in range(3):
        x = 36 + 59 * number
        marks += _small(x, 166, f"{number + 1}", 34, INK if number == 0 else GREY)
        if number < 2:
            marks += _arrow([(x + 19, 166), (x + 40, 166)], MODEL)
    marks.append(_say(95, 206, "bottom handed on"))
    # SplitFed: all speak, then a mean
    for number in range(3):
        x = 226 + 59 * number
        marks += _small(x, 150, f"{number + 1}", 34, INK)
        marks += [
            *_arrow([(x - 7, 130), (x - 7, 82)], UP),
            *_arrow([(x + 7, 82), (x + 7, 130)], DOWN),
        ]
        marks.append(Stroke([(x, 166), (x, 184)], MODEL, 2.5))
    marks += [
        Stroke([(226, 184), (344, 184)], MODEL, 2.5),
        _say(285, 206, "bottoms averaged"),
    ]
    # U-shape: head, body, tail
    marks += [
        *_block(400, 146, 62, 34, "head", DARK_GREY),
        *_block(488, 146, 62, 34, "tail", DARK_GREY),
        *_block(444, 52, 62, 34, "body", DARK_GREY),
        Stroke(_rounded(394, 136, 162, 54), INK, 1.5),
        _say(475, 208, "client"),
        *_arrow([(424, 132), (458, 90)], UP),
        *_arrow([(492, 90), (526, 132)], UP),
        *_arrow([(512, 132), (478, 90)], DOWN),
        *_arrow([(472, 90), (438, 132)], DOWN),
    ]
    # vertical: two owners, one label party
    for x, name in ((620, "bank"), (710, "shop")):
        marks += _small(x, 166, name, 62, INK)
        marks += [
            *_arrow([(x - 7, 146), (x - 7, 82)], UP),
            *_arrow([(x + 7, 82), (x + 7, 146)], DOWN),
        ]
    marks.append(_say(665, 206, "the same people"))
    marks += [
        *_arrow([(12, 264), (46, 264)], UP), _say(54, 269, "activations", "start"),
        *_arrow([(190, 264), (156, 264)], DOWN), _say(198, 269, "gradients", "start"),
        Stroke([(296, 264), (330, 264)], MODEL, 2.5),
        _say(338, 269, "weights of the bottom", "start"),
    ]  # fmt: skip
    return Drawing(760, 284, title, marks)


def states() -> Drawing:
    """Notebook 03: states A, B and C as a timetable.

    >>> states().title.split(" and gradients")[0]
    'A timetable of nine steps: in state A activations go up'
    """
    title = (
        "A timetable of nine steps: in state A activations go up and gradients come down and both "
        "learn; in B only activations go up and only Bob learns; in C nothing crosses and Bob "
        "learns from what he has stored."
    )
    bob, alice = 76, 190
    marks: list[Mark] = [
        _say(12, bob + 5, "Bob", "start", bold=True),
        _say(12, alice + 5, "Alice", "start", bold=True),
        Stroke([(70, bob), (700, bob)], PALE, 2),
        Stroke([(70, alice), (700, alice)], PALE, 2),
        *_arrow([(70, 268), (700, 268)], DARK_GREY, 1.5),
        _say(72, 292, "time, one step after the other", "start"),
        symbol(420, 287, "o", INK, INK),
        _say(432, 292, "learns", "start"),
        symbol(510, 287, "o", INK, PAPER),
        _say(522, 292, "computes, does not learn", "start"),
    ]
    for step, state in enumerate("AAABBBCCC"):
        x = 105 + 68 * step + 8 * (step // 3)
        marks += [
            symbol(x, bob, "o", INK, INK, size=1.5),
            _say(x, 30, state, bold=True),
        ]
        if state in "AB":
            marks += _arrow([(x - 8, alice - 16), (x - 8, bob + 16)], UP)
            fill = INK if state == "A" else PAPER
            marks.append(symbol(x, alice, "o", INK, fill, size=1.5))
        if state == "A":
            marks += _arrow([(x + 8, bob + 16), (x + 8, alice - 16)], DOWN)
        if state == "C":
            marks += _arrow(_bend((x + 9, bob + 10), (x, bob + 62), (x - 9, bob + 10)), LABEL, 1.8)
    for x, first, second in (
        (173, "A: both ways,", "both learn"),
        (385, "B: only up,", "only Bob learns"),
        (597, "C: silence, Bob learns", "from what he has stored"),
    ):
        marks += [_say(x, 226, first), _say(x, 246, second)]
    for x in (279, 491):
        marks.append(Stroke([(x, 16), (x, 254)], PALE, 1.5, (4, 3)))
    marks.append(_say(597, 136, "his cache"))
    return Drawing(720, 304, title, marks)


def federated_round() -> Drawing:
    """Notebook 04: a round of federated averaging.

    >>> federated_round().title.split(",")[0]
    'A round of federated averaging: the server sends its model to some clients'
    """
    title = (
        "A round of federated averaging: the server sends its model to some clients, each trains "
        "its copy at home on its own data, sends back what has changed, and the server takes the "
        "mean."
    )
    marks: list[Mark] = [
        *_block(16, 106, 110, 64, "model", MODEL),
        _say(71, 98, "server", bold=True),
        *_block(594, 106, 110, 64, "mean", MODEL),
        _say(649, 98, "server", bold=True),
    ]
    for number in range(3):
        y = 34 + 74 * number
        marks += [
            *_house(272, y, 176, 60),
            _say(360, y + 25, f"client {number + 1}", bold=True),
            _say(360, y + 46, "trains on its own data"),
            *_arrow([(130, 138 + 8 * (number - 1)), (266, y + 30)], MODEL),
            *_arrow([(452, y + 30), (590, 138 + 8 * (number - 1))], UP),
        ]
    marks += [
        _say(170, 18, "1. the model goes out"),
        _say(360, 18, "2. many steps at home"),
        _say(556, 18, "3. updates come back"),
        _say(649, 190, "4. one new model"),
        *_arrow(_bend((640, 204), (360, 328), (80, 178)), DARK_GREY, 2),
        _say(360, 288, "the next round, with other clients"),
    ]
    return Drawing(720, 300, title, marks)


def rounding() -> Drawing:
    """Notebook 05: rounding to levels.

    >>> rounding().title.split(",")[0]
    'Quantization with two bits: each value moves to the nearest of four levels'
    """
    title = (
        "Quantization with two bits: each value moves to the nearest of four levels, and only the "
        "number of its level is sent, 2 bits in place of 32; the way it moved is the error."
    )
    left, right, line = 60.0, 660.0, 150
    levels = [left + k * (right - left) / 3 for k in range(4)]
    marks: list[Mark] = [Stroke([(left - 20, line), (right + 20, line)], DARK_GREY, 1.5)]
    for k, x in enumerate(levels):
        marks += [
            Stroke([(x, line - 12), (x, line + 12)], INK, 2),
            *_block(x - 24, line + 50, 48, 32, f"{k:02b}", UP),
        ]
        marks += _arrow([(x, line + 18), (x, line + 44)], DARK_GREY, 1.5)
    for part in (0.0, 0.11, 0.23, 0.4, 0.62, 0.74, 0.91, 1.0):
        x = left + part * (right - left)
        level = min(levels, key=lambda each: abs(each - x))
        marks.append(symbol(x, 74, "o", UP, UP))
        marks += _arrow([(x, 82), (level + 0.12 * (x - level), line - 16)], DOWN, 1.5)
    marks += [
        _say(360, 22, "what Alice has: any value between the least and the greatest, 32 bits each"),
        _say(360, 44, "orange: the error"),
        _say(360, line + 108, "what is sent: the number of the level, 2 bits each"),
        _say(left, line + 108, "the least"),
        _say(right, line + 108, "the greatest"),
    ]
    return Drawing(720, 270, title, marks)


def top_k() -> Drawing:
    """Notebook 06: what top-k keeps, and what error feedback remembers.

    >>> top_k().title.split(";")[0]
    'Top-k sends only the largest entries of an update, here two of eight'
    """
    update = (0.35, -0.9, 0.15, 0.5, -0.2, 0.7, -0.4, 0.1)
    remembered = (0.2, 0.0, 0.1, 0.45, -0.1, 0.0, -0.35, 0.15)
    total = [a + b for a, b in zip(update, remembered, strict=True)]
    kept = sorted(range(8), key=lambda k: -abs(total[k]))[:2]
    title = (
        "Top-k sends only the largest entries of an update, here two of eight; error feedback "
        "remembers all the others and adds them to the next update, so that nothing is lost."
    )
    zero, tall = 116, 62
    panels = (
        (20, "the update; pale: what", "was remembered before", range(8)),
        (270, "sent: the 2 largest", "with their places", kept),
        (520, "remembered:", "all the others", [k for k in range(8) if k not in kept]),
    )
    marks: list[Mark] = []
    for number, (left, first, second, shown) in enumerate(panels):
        marks += [
            _say(left + 90, 22, first),
            _say(left + 90, 42, second),
            Stroke([(left, zero), (left + 180, zero)], DARK_GREY, 1),
        ]
        for k in shown:
            x, color = left + 8 + 21 * k, UP if k in kept else DOWN
            top = zero - tall * max(total[k], 0)
            marks.append(Box(x, top, 16, tall * abs(total[k]), color, 0.5 if number == 0 else 1))
            if number == 0:  # the update's part of it, over the pale whole
                top = zero - tall * max(update[k], 0)
                marks.append(Box(x, top, 16, tall * abs(update[k]), color))
    marks += [
        *_arrow([(212, zero), (254, zero)], UP),
        *_arrow(_bend((610, 196), (360, 290), (110, 196)), DOWN),
        _say(360, 222, "added to the next update"),
    ]
    return Drawing(720, 262, title, marks)


def sparse_choices() -> Drawing:
    """Appendix to notebook 06: what is chosen, how it is averaged, how it is rounded.

    >>> sparse_choices().title.split(":")[0]
    'Three choices behind top-k'
    """
    title = (
        "Three choices behind top-k: the largest entries of the whole model or of each tensor; a "
        "mean that counts what was not sent as zero or one that divides by those who sent; values "
        "as they are, or only their signs with one size for all."
    )
    zeros, tall = (118, 252), 52
    marks: list[Mark] = [Stroke([(x, 8), (x, 312)], PALE, 1.5, (4, 3)) for x in (240, 480)]
    for column, (question, first, second) in enumerate(
        (
            ("chosen", "of the whole model", "of each tensor"),
            ("averaged", "divided by all three", "divided by who sent"),
            ("rounded", "values as they are", "signs, and one size"),
        )
    ):
        middle = 120 + 240 * column
        marks.append(_say(middle, 22, question, bold=True))
        for zero, words in zip(zeros, (first, second), strict=True):
            marks.append(_say(middle, zero - tall - 18, words))
            marks.append(Stroke([(middle - 96, zero), (middle + 96, zero)], DARK_GREY, 1))

    def bar(x: float, zero: float, value: float, width: float, color: str, depth: float = 1) -> Box:
        height = tall * abs(value)
        return Box(x, zero - height if value > 0 else zero, width, height, color, depth)

    # chosen: two of eight entries, the last three of which are a tensor of their own
    entries = (0.3, -0.2, 0.45, -0.35, 0.15, 0.75, -0.5, 1.0)
    for zero, kept in zip(zeros, ((5, 7), (2, 7)), strict=True):
        for k, entry in enumerate(entries):
            color, depth = (UP, 1) if k in kept else (DARK_GREY, 0.3)
            marks.append(bar(28 + 22 * k + 14 * (k > 4), zero, entry, 15, color, depth))
    # averaged: what three clients sent for each of four weights, and behind it the mean
    sent = ((0.9, None, None), (0.5, 0.8, 0.65), (None, 0.6, None), (None, -0.5, -0.3))
    for row, zero in enumerate(zeros):
        for k, values in enumerate(sent):
            left, arrived = 270 + 48 * k, [value for value in values if value is not None]
            mean = sum(arrived) / (len(arrived) if row else len(values))
            marks.append(bar(left, zero, mean, 38, MODEL, 0.45))
            for client, value in enumerate(values):
                if value is not None:
                    marks.append(bar(left + 3 + 12 * client, zero, value, 8, UP))
    # rounded: four kept values, then their signs with the mean of their sizes
    kept_values = {0: 0.9, 2: -0.45, 3: 0.6, 6: 0.75}
    size = sum(map(abs, kept_values.values())) / len(kept_values)
    for row, zero in enumerate(zeros):
        for k, value in kept_values.items():
            height = math.copysign(size, value) if row else value
            marks.append(bar(512 + 26 * k, zero, height, 17, UP))
    marks += [
        _say(83, 298, "one tensor"), _say(181, 298, "another"),
        Box(30, 321, 12, 12, UP), _say(50, 332, "is sent", "start"),
        Box(150, 321, 12, 12, DARK_GREY, 0.3), _say(170, 332, "is not sent", "start"),
        Box(300, 321, 12, 12, MODEL, 0.45), _say(320, 332, "the mean", "start"),
    ]  # fmt: skip
    return Drawing(720, 344, title, marks)


def front() -> Drawing:
    """Notebook 07: the Pareto front.

    >>> front().title.split(";")[0]
    'The front: a method is on it if no other sends fewer bytes and is at least as accurate'
    """
    title = (
        "The front: a method is on it if no other sends fewer bytes and is at least as accurate; "
        "everything below and to the right of a method on the front is beaten by it."
    )
    left, low = 70, 236
    on = [(130, 186), (230, 120), (360, 84), (560, 66)]
    off = [(290, 160), (420, 130), (500, 110), (640, 90), (600, 170)]
    stairs: list[tuple[float, float]] = [(130, low)]
    for (x, y), (after, _) in zip(on, [*on[1:], (690, 0)], strict=True):
        stairs += [(x, y), (after, y)]
    marks: list[Mark] = [
        Stroke([*stairs, (690, low), (130, low)], "none", 0, fill=UP, opacity=0.1),
        Stroke(stairs[1:], UP, 2),
        *_arrow([(left, low), (left, 24)], DARK_GREY, 1.5),
        *_arrow([(left, low), (700, low)], DARK_GREY, 1.5),
        _say(left + 10, 24, "accuracy", "start"),
        _say(696, low + 22, "bytes sent", "end"),
        *(symbol(x, y, "o", UP, UP, size=1.4) for x, y in on),
        *(symbol(x, y, "o", DARK_GREY, PAPER, size=1.4) for x, y in off),
        *_arrow([(190, 84), (128, 46)], MODEL),
        _say(200, 100, "better", bold=True),
        _say(460, 52, "on the front: worth considering"),
        _say(440, 208, "beaten: another one sends less and is as accurate"),
    ]
    return Drawing(720, 270, title, marks)


def attacker() -> Drawing:
    """Notebook 08: what one sees from the attacker's seat.

    >>> attacker().title.split(" that")[0]
    "From the attacker's seat: Bob keeps to the protocol, but he trains a decoder"
    """
    title = (
        "From the attacker's seat: Bob keeps to the protocol, but he trains a decoder that turns "
        "the activations he receives back into Alice's images; and Alice reads his labels off the "
        "gradients that she receives."
    )
    marks = [
        *_house(10, 10, 230, 208, "Alice"),
        *_house(420, 10, 290, 208, "Bob"),
        *_image(30, 60, 56),
        *_arrow([(94, 88), (122, 88)], DARK_GREY, 1.5),
        *_block(126, 66, 98, 44, "her layers", DARK_GREY),
        *_arrow([(228, 88), (432, 88)], UP, 3),
        _say(330, 74, "activations", bold=True),
        *_block(438, 66, 90, 44, "decoder", LABEL),
        *_arrow([(532, 88), (574, 88)], LABEL),
        *_image(584, 60, 56, blur=True),
        _say(565, 140, "learned from images of his own"),
        *_arrow([(432, 176), (236, 176)], DOWN, 3),
        _say(330, 164, "gradients", bold=True),
        *_block(438, 158, 120, 38, "his labels", DARK_GREY),
        _say(125, 164, "reads a rare label"),
        _say(125, 186, "off their length"),
    ]
    return Drawing(720, 228, title, marks)


def private_data() -> Drawing:
    """Notebook 09: an owner and a researcher.

    >>> private_data().title.split(",")[0]
    'The researcher sends code'
    """
    title = (
        "The researcher sends code, the owner reads it and approves or refuses, the code runs "
        "where the data are, and only its result goes back."
    )
    marks = [
        *_house(10, 20, 210, 200, "researcher"),
        *_house(430, 20, 280, 200, "owner"),
        *_block(34, 66, 162, 40, "writes code", UP),
        *_block(34, 158, 162, 40, "reads the result", MODEL),
        *_arrow([(200, 86), (446, 86)], UP, 3),
        _say(325, 74, "1. the code, as a request"),
        *_block(450, 66, 240, 40, "2. reads it: yes or no?", DOWN),
        *_arrow([(570, 108), (570, 154)], DARK_GREY, 2),
        _say(582, 136, "yes", "start"),
        *_block(450, 158, 240, 40, "3. runs it on the data", LABEL),
        *_arrow([(446, 178), (200, 178)], MODEL, 3),
        _say(325, 200, "4. only the result"),
        _say(570, 242, "the data never leave the owner"),
    ]
    return Drawing(720, 254, title, marks)


def engines() -> Drawing:
    """Notebook 10: one protocol, several engines.

    >>> engines().title.split(":")[0]
    'One protocol, four engines'
    """
    title = (
        "One protocol, four engines: in one process, in processes that torch.distributed joins, in "
        "Flower's clients, and as PySyft's jobs; the parties and the bytes that "
        "cross are the same."
    )
    marks: list[Mark] = [
        *_block(150, 10, 420, 40, "the protocol: one function, the same parties", MODEL),
    ]
    for column, (name, below, apart) in enumerate(
        (
            ("one process", "as in the course", False),
            ("torch.distributed", "processes", True),
            ("Flower", "server and clients", True),
            ("PySyft", "jobs that are read", True),
        )
    ):
        middle = 92 + 179 * column
        marks += [
            *_arrow([(middle, 54), (middle, 86)], DARK_GREY, 1.5),
            _say(middle, 106, name, bold=True),
            _say(middle, 216, below),
        ]
        alice, bob = middle - 46, middle + 46
        if apart:
            for x in (alice, bob):
                marks.append(Stroke(_rounded(x - 36, 122, 72, 70), INK, 1.5, (4, 2)))
        else:
            marks.append(Stroke(_rounded(middle - 84, 122, 168, 70), INK, 1.5, (4, 2)))
        for x, who in ((alice, "Alice"), (bob, "Bob")):
            marks += _small(x, 144, who, 56)
        marks += _arrow([(alice + 4, 176), (bob - 2, 176)], UP)
    marks += [
        Stroke(_rounded(270, 240, 24, 18, 4), INK, 1.5, (4, 2)),
        _say(302, 254, "a process", "start"),
        *_arrow([(400, 249), (436, 249)], UP),
        _say(444, 254, "the same bytes", "start"),
    ]
    return Drawing(720, 270, title, marks)


def local_steps() -> Drawing:
    """Notebook 11: a message at every step, or one every H local steps.

    >>> local_steps().title.split(":")[0]
    'Two timetables of three workers and eight steps'
    """
    title = (
        "Two timetables of three workers and eight steps: with a message at every step they send "
        "gradients eight times; with H = 4 each trains four steps on its own and then sends, in "
        "few bits, how far it has come, and the outer step makes from it the next model of all."
    )
    left, gap = 150, 68
    marks: list[Mark] = []
    for every, top, words in ((1, 8, "at every step"), (4, 176, "every H = 4 steps")):
        server, middle = top + 46, top + 118
        marks += [
            _say(left, top + 14, f"a message {words}", "start", bold=True),
            _say(12, server + 5, "server", "start"),
            _say(12, middle + 5, "three workers", "start"),
            Stroke([(left - 20, server), (706, server)], PALE, 2),
        ]
        for first in range(0, 8, every):
            x, after = left + gap * first, left + gap * (first + every)
            for worker in (-1, 0, 1):
                places = [(x, middle)]
                for step in range(1, every + 1):
                    away = 24 * worker * (step / every) ** 0.7
                    bow = 5 * math.sin(2.2 * step + worker) if 1 < step < every else 0
                    places.append((x + gap * step - 14, middle + away + bow))
                marks.append(Stroke([*places, (after, middle)], DARK_GREY, 1.2))
                marks += [symbol(a, b, "o", INK, INK, size=0.7) for a, b in places[1:]]
            marks += _arrow([(after - 14, middle - 32), (after - 14, server + 11)], UP)
            marks += _arrow([(after, server + 11), (after, middle - 7)], MODEL)
            marks.append(symbol(after - 7, server, "s", MODEL, MODEL, size=1.2))
    marks += [
        symbol(167, 351, "o", INK, INK, size=0.7),
        _say(192, 356, "a step of one worker on its own text", "start"),
        *_arrow([(150, 377), (184, 377)], UP),
        _say(192, 382, "its gradient, or how far it has come in H steps, in few bits", "start"),
        *_arrow([(150, 403), (184, 403)], MODEL),
        _say(192, 408, "the same new model for all", "start"),
        symbol(452, 403, "s", MODEL, MODEL, size=1.2),
        _say(468, 408, "the server's (outer) step", "start"),
    ]
    return Drawing(720, 422, title, marks)


def transformer_cut() -> Drawing:
    """Notebook 12: a transformer cut between two blocks, and as a U-shape.

    >>> transformer_cut().title.split(";")[0]
    'In a plain cut Bob has the labels, and they are the text moved on by one character'
    """
    title = (
        "In a plain cut Bob has the labels, and they are the text moved on by one character; in "
        "the U-shape Alice keeps both ends with text and labels, Bob computes the middle, and "
        "activations and gradients cross twice."
    )
    plain, u_shape = 40, 246
    marks: list[Mark] = [
        _say(360, 20, "a plain cut", bold=True),
        *_house(10, plain, 262, 140, "Alice"),
        *_house(448, plain, 262, 140, "Bob"),
        *_block(24, plain + 34, 104, 38, "embedding", DARK_GREY),
        *_arrow([(130, plain + 53), (158, plain + 53)], DARK_GREY, 1.5),
        *_block(160, plain + 34, 96, 38, "block 1", DARK_GREY),
        *_block(464, plain + 34, 96, 38, "block 2", DARK_GREY),
        *_arrow([(562, plain + 53), (596, plain + 53)], DARK_GREY, 1.5),
        *_block(598, plain + 34, 96, 38, "head", DARK_GREY),
        *_arrow([(260, plain + 42), (460, plain + 42)], UP, 3),
        _say(360, plain + 30, "activations", bold=True),
        *_arrow([(460, plain + 64), (260, plain + 64)], DOWN, 3),
        _say(360, plain + 87, "gradients", bold=True),
        *_letters(66, plain + 84, "the cat"),
        *_letters(508, plain + 84, "he cats"),
        _say(141, plain + 130, "the text"),
        _say(579, plain + 130, "labels: the text moved by one"),
        _say(360, u_shape - 24, "the U-shape", bold=True),
    ]
    low, foot = u_shape + 78, u_shape + 142
    outline = [
        (10, u_shape - 6), (272, u_shape - 6), (272, low), (448, low), (448, u_shape - 6),
        (710, u_shape - 6), (710, foot), (10, foot), (10, u_shape - 6),
    ]  # fmt: skip
    marks += [
        Stroke(outline, DARK_GREY, 1.5, fill=PAPER),
        *_house(302, u_shape - 6, 116, 72, "Bob"),
        _say(141, u_shape + 15, "Alice", bold=True),
        _say(579, u_shape + 15, "Alice too", bold=True),
        *_block(24, u_shape + 26, 104, 38, "embedding", DARK_GREY),
        *_arrow([(130, u_shape + 45), (154, u_shape + 45)], DARK_GREY, 1.5),
        *_block(156, u_shape + 26, 84, 38, "block 1", DARK_GREY),
        *_block(318, u_shape + 22, 84, 38, "block 2", DARK_GREY),
        *_block(480, u_shape + 26, 198, 38, "head", DARK_GREY),
        *_letters(66, u_shape + 76, "the cat"),
        *_letters(508, u_shape + 76, "he cats"),
        _say(141, u_shape + 122, "the text"),
        _say(579, u_shape + 122, "the labels"),
        _say(360, u_shape + 122, "neither leaves Alice"),
    ]
    for x in (242, 404):
        marks += _arrow([(x, u_shape + 33), (x + 74, u_shape + 33)], UP, 3)
        marks += _arrow([(x + 74, u_shape + 55), (x, u_shape + 55)], DOWN, 3)
    return Drawing(720, 400, title, marks)


def _letters(x: float, y: float, text: str) -> Iterator[Mark]:
    """A text of single letters, a box each."""
    for number, letter in enumerate(text):
        left = x + 21 * number
        yield Stroke(_rounded(left, y, 20, 26, 3), LABEL, 1)
        if letter != " ":
            yield _say(left + 10, y + 18, letter)
