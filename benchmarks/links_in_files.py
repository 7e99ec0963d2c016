"""The memory of thousands of links: most of it in files.

Not here: how links are opened and closed (`fltoolkit.links`).
"""

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from fltoolkit.codecs.base import Codec
from fltoolkit.links import CodecOf, Ends, Link, Links


class LinksInFiles(Links):
    """`fltoolkit.links.Links` that keep the memory of the links used last in RAM, others in files.

    Give them to a channel: ``channel.links = LinksInFiles(codecs, max_links=100, folder="links")``.
    `ErrorFeedback` needs the most memory: 4 bytes for each parameter and client.

    Args:
        codecs: those of the channel.
        max_links: for how many links, those used last, the codecs are kept in RAM.
        folder: the files are written into a new folder inside this one, which is deleted together
            with the links.

    >>> from fltoolkit import Channel
    >>> from fltoolkit.codecs import ErrorFeedback, Pipeline, TopK
    >>> channel = Channel()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     channel.links = LinksInFiles(
    ...         {"update": ErrorFeedback(Pipeline(TopK(0.5)))}, max_links=1, folder=folder
    ...     )
    ...     for name in ("ann", "ben", "ann"):
    ...         got = channel.send(name, "server", "update", {"w": torch.tensor([3.0, 2.0])})
    >>> got, len(channel.links.ends)
    ({'w': tensor([0., 4.])}, 1)
    """

    def __init__(
        self,
        codecs: Mapping[str, Codec] | CodecOf | None = None,
        *,
        max_links: int,
        folder: str | os.PathLike[str],
    ):
        super().__init__(codecs)
        if max_links < 1:
            raise ValueError(f"max_links={max_links}: 1 or more links stay in memory")
        self._max_links = max_links
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="links-", dir=folder))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._away: dict[Link, Path] = {}  # links whose state is in a file

    def codecs_of(self, link: Link) -> Ends:
        """The two codecs of a link; those used longest ago are put into files."""
        ends = super().codecs_of(link)
        if link not in self.shared:
            self.ends[link] = self.ends.pop(link)  # now the last one used
            for oldest in [*self.ends][: -self._max_links]:
                self._put_away(oldest)
        return ends

    def _put_away(self, link: Link) -> None:
        states = [end.state_dict() for end in self.ends.pop(link)]
        if any(states):
            path = self._folder / (hashlib.sha256("|".join(link).encode()).hexdigest()[:32] + ".pt")
            torch.save(states, new := path.with_suffix(".tmp"))
            new.replace(path)  # an open `state_dict` can still read the old file
            self._away[link] = path

    def _begin(self, link: Link) -> Ends:
        ends = super()._begin(link)
        if link in self._away:
            states = torch.load(self._away.pop(link), weights_only=True)
            for end, state in zip(ends, states, strict=True):
                end.load_state_dict(state)
        return ends

    def _known(self) -> list[Link]:
        return [*super()._known(), *self._away]

    def _close(self, links: list[Link]) -> None:
        super()._close(links)
        for link in links:
            self._away.pop(link, None)

    def state_dict(self) -> dict[str, Any]:
        """As of `Links`; a state that is kept in a file is read only when somebody looks at it."""
        state = super().state_dict()
        away = [
            (*link, *torch.load(str(path), weights_only=True, mmap=True))  # torch 2.2 wants a str
            for link, path in self._away.items()
        ]
        return state | {"links": [*away, *state["links"]]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self._away = {}
        super().load_state_dict(state)
