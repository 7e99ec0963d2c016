"""Links inside the repository: each file that a page names is there, and each heading too.

Addresses on other sites are looked up by `make links`, which needs a network.
"""

import json
import re
from pathlib import Path

import pages
import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / name for name in pages.files_of_the_repository("*.md", "*.ipynb")]


def test_the_files_are_found_without_git_history(monkeypatch):
    with_git = pages.files_of_the_repository()

    def no_git(*command, **options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(pages.subprocess, "run", no_git)
    assert pages.files_of_the_repository() == with_git


def headings(path: Path) -> set[str]:
    """The anchors that GitHub and the website give to a page's headings."""
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    bare = [re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", each)) for each in found]
    return {each.lower().replace(" ", "-") for each in bare}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    found, text = [], path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    for link in LINK.findall(re.sub(r"`[^`\n]+`", "", FENCED.sub("", text))):
        name, _, anchor = link.partition("#")
        if re.match(r"\w+:", link) or (link == "x" and path.suffix == ".ipynb"):
            continue
        target = (path.parent / name).resolve() if name else path
        if not target.exists():
            found.append(f"{link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in headings(target):
            found.append(f"{link}: no such heading")
    assert found == []


def test_every_page_of_docs_is_on_the_website():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w/.]+)$", index, re.MULTILINE))
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= listed, f"docs/index.md does not list {sorted(pages - listed)}"
