"""Give each link to the glossary in the notebooks the first sentence of its entry as a title.

    python tools/glossary_titles.py

A browser shows the title when the pointer rests on the link: without a network, and on the same
page. A test compares; run this when an entry or a link has changed.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHORT = 50  # characters


def sentences() -> dict[str, str]:
    """Anchor -> the first sentence of the entry, and after a short one the next, without markup."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    found = {}
    for heading, body in re.findall(r"^### (.+)\n\n((?:.+\n)+)", text, re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", " ".join(body.split()))
        plain = re.sub(r"[*`]", "", plain).replace('"', "'")
        first, *more = re.split(r"(?<!et al\.)(?<=[.?!]) (?=[A-Z0-9])", plain)
        found[anchor] = " ".join([first, *more[: len(first) < SHORT]])
    return found


def titled(markdown: str, known: dict[str, str]) -> str:
    """The text of a cell, in which each link to the glossary has its title."""
    return re.sub(
        r'\]\((\.\./docs/glossary\.md#([\w-]+))(?: "[^"]*")?\)',
        lambda link: f']({link[1]} "{known[link[2]]}")',
        markdown,
    )


if __name__ == "__main__":
    known = sentences()
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        content = json.loads(path.read_text(encoding="utf-8"))
        before = json.dumps(content)
        for cell in content["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = titled("".join(cell["source"]), known).splitlines(keepends=True)
        if json.dumps(content) != before:
            text = json.dumps(content, indent=1, ensure_ascii=False)
            path.write_text(f"{text}\n", encoding="utf-8")
