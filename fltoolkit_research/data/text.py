"""Text as numbers, one for each character: training and test part, windows, and speakers."""

import hashlib
import re
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fltoolkit.data.files import Source, damage_reported
from fltoolkit.shapes import Int64

_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SHAKESPEARE = Source(
    "tinyshakespeare",
    ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
    {"input.txt": f"sha256:{_SHA256}"},
)
_SPEECH = re.compile(r"([A-Z][^\n:]{0,40}):\n(.*)", re.DOTALL)


@dataclass(frozen=True, eq=False, repr=False)
class Text:
    """A text whose characters are numbered by their place in ``alphabet``.

    ``train`` holds the first nine tenths, ``test`` the rest. For a text of your own call `Text.of`.
    """

    train: Int64[Tensor, " train"]
    test: Int64[Tensor, " test"]
    alphabet: str  # each character once, sorted
    name: str
    sha256: str  # of the whole text in UTF-8: identifies the text

    @classmethod
    def of(cls, text: str, name: str, *, held_out: float = 0.1) -> "Text":
        """Number the characters of ``text``; its last part, ``held_out``, becomes the test part.

        Raises ValueError if either part would have fewer than two characters.
        """
        alphabet = "".join(sorted(set(text)))
        first = len(text) - round(held_out * len(text))
        if not 2 <= first <= len(text) - 2:
            raise ValueError(
                f"{name}: {len(text):,} characters, held_out={held_out}: both parts need two "
                "characters or more, one to read and one to predict"
            )
        ids = _ids(text, alphabet)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return cls(ids[:first], ids[first:], alphabet, name, digest)

    def encode(self, text: str) -> Int64[Tensor, " characters"]:
        """The numbers of the characters. Raises ValueError for one that is not in ``alphabet``."""
        if strangers := sorted(set(text) - set(self.alphabet)):
            raise ValueError(
                f"{strangers[0]!r} is not among the {len(self.alphabet)} characters of {self.name}"
            )
        return _ids(text, self.alphabet)

    def decode(self, ids: Int64[Tensor, " characters"]) -> str:
        """The characters with these numbers."""
        return "".join(self.alphabet[k] for k in ids.tolist())

    def windows(
        self, context: int, part: str = "train"
    ) -> tuple[Int64[Tensor, "windows context"], Int64[Tensor, "windows context"]]:
        """The part cut into windows: ``x`` is the input, ``y`` the next character at each place.

        Windows of ``context`` characters do not overlap, so every character is predicted at most
        once in an epoch. Those left over at the end are not used. ``part``: "train" or "test".

        >>> x, y = Text.of("abracadabra, abracadabra", "spell").windows(4)
        >>> x.shape, torch.equal(x[0, 1:], y[0, :-1])
        (torch.Size([5, 4]), True)
        """
        if part not in ("train", "test"):
            raise ValueError(f"part={part!r}: choose 'train' or 'test'")
        return cut(self.train if part == "train" else self.test, context, f"{self.name}, {part}")

    def roles(
        self, context: int
    ) -> dict[str, tuple[Int64[Tensor, "windows context"], Int64[Tensor, "windows context"]]]:
        """The windows of each speaker in the training part, by name: natural clients.

        In a play, a line such as "First Citizen:" names the speaker; see `speeches`. A speaker
        without a whole window is left out. Raises ValueError if nobody is left.
        """
        found = {}
        for name, words in speeches(self.decode(self.train)).items():
            if len(words) > context:
                found[name] = cut(self.encode(words), context, name)
        if not found:
            raise ValueError(
                f"{self.name} names no speaker who says more than {context:,} characters: it "
                "needs lines such as 'First Citizen:' before what they say"
            )
        return found

    def __repr__(self) -> str:
        return (
            f"Text({self.name}: {len(self.train):,} train, {len(self.test):,} test, "
            f"{len(self.alphabet)} characters)"
        )


def load_text(name: str) -> Text:
    """Load "topics", which needs no file, or "shakespeare".

    "topics" is the help on the language that every CPython contains (``pydoc_data.topics``), which
    differs between versions. "shakespeare" is the example of char-rnn with 1,115,394 characters
    (public domain). It is looked for like MNIST, as ``tinyshakespeare/input.txt``, and is
    downloaded if it is not found.

    Raises DataNotFoundError if there is no local copy and no mirror can be reached, and ValueError
    if the name is unknown or the file is not the published one.

    >>> load_text("topics").name
    'topics'
    """
    if name == "topics":
        from pydoc_data.topics import topics

        return Text.of("\n\n".join(topics[key] for key in sorted(topics)), name)
    if name == "shakespeare":
        path = SHAKESPEARE.fetch("input.txt")
        with damage_reported(path, "the char-rnn example"):
            content = path.read_bytes()
        if (found := hashlib.sha256(content).hexdigest()) != _SHA256:
            raise ValueError(
                f"{path} is another text: its SHA-256 is {found[:16]}..., that of the char-rnn "
                f"example {_SHA256[:16]}... Delete the file and get it again, or use "
                "Text.of(text, name)"
            )
        return Text.of(content.decode(), name)
    raise ValueError(f'unknown text {name!r}: choose "topics" or "shakespeare"')


def speeches(text: str) -> dict[str, str]:
    r"""What each speaker of a play says, in order of first appearance.

    A speech is a paragraph that begins with a line that holds a name and a colon and nothing else.
    A paragraph without such a line belongs to the speech before it. The speeches of one speaker are
    joined with an empty line between them.

    >>> speeches("All:\nSpeak.\n\nBob:\nNo.\n\nAll:\nWhy?")
    {'All': 'Speak.\n\nWhy?', 'Bob': 'No.'}
    """
    found: dict[str, list[str]] = {}
    speaker = ""
    for paragraph in text.split("\n\n"):
        if match := _SPEECH.fullmatch(paragraph.strip("\n")):
            speaker, paragraph = match[1], match[2]
        if speaker and paragraph:
            found.setdefault(speaker, []).append(paragraph)
    return {name: "\n\n".join(said) for name, said in found.items()}


def cut(
    ids: Int64[Tensor, " characters"], context: int, name: str
) -> tuple[Int64[Tensor, "windows context"], Int64[Tensor, "windows context"]]:
    """Windows that do not overlap, and the same windows moved by one character."""
    count = (len(ids) - 1) // context if context > 0 else 0
    if count < 1:
        raise ValueError(
            f"context={context}: {name} has {len(ids):,} characters; a window needs 1 or more, and "
            "the text one more than that"
        )
    size = count * context
    return ids[:size].reshape(count, context), ids[1 : size + 1].reshape(count, context)


def _ids(text: str, alphabet: str) -> Int64[Tensor, " characters"]:
    number = {character: place for place, character in enumerate(alphabet)}
    return torch.from_numpy(np.fromiter((number[c] for c in text), np.int64, len(text)))
