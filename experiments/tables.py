"""A table as Markdown. Not here: what its cells say (each experiment's report)."""

from collections.abc import Iterable


def markdown(head: str, rows: Iterable[Iterable[object]]) -> str:
    """A table with these words above its columns, between which stands " | ".

    >>> print(markdown("method | MB", [["float32", 8], ["", "1.5"]]))
    | method | MB |
    |---|---|
    | float32 | 8 |
    |  | 1.5 |
    """
    lines = [head, *(" | ".join(map(str, row)) for row in rows)]
    lines = [f"| {line} |" for line in lines]
    return "\n".join([lines[0], "|---" * (head.count(" | ") + 1) + "|", *lines[1:]])
