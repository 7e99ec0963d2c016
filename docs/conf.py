"""README, docs and notebooks with their saved outputs as a website: `make site`."""

import gc
import re
import shutil
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.search.en import SearchEnglish

sys.path.insert(0, str(Path(__file__).parent))  # for api_pages
# to look for cycles in the trees of all pages took a quarter of the time, and saved 240 of 860 MB
gc.disable()

project = "fltoolkit"
html_title = "fltoolkit: how much accuracy does a byte buy?"
html_theme = "furo"
html_static_path, html_css_files = ["static"], ["print.css"]
extensions = ["myst_nb", "api_pages"]
root_doc = "docs/index"
exclude_patterns = [".*", "build"]  # folders that need not be searched
include_patterns = ["README.md", "docs/*.md", "docs/api/*.rst", "notebooks/*.ipynb"]
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "myst.xref_missing", "mystnb.unknown_mime_type"]
suppress_warnings += ["misc.highlighting_failure"]  # of cells that are not only Python

# the API reference: see api_pages.py
default_role = "name"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # to look for them, the source of each function was read twice
autodoc_member_order = "bysource"
autodoc_mock_imports = [name for name in ("flwr", "syft", "syft_rds") if not find_spec(name)]
python_use_unqualified_type_names = True
suppress_warnings += ["ref.python"]  # two rooms have the same name: the text stays without a link

# the pages have most words in common, and Sphinx remembers the stems of one page only
SearchEnglish.stem = cache(SearchEnglish.stem)

_REPOSITORY = "https://github.com/fltoolkit/fltoolkit"
_LANDING = """<!doctype html><meta charset="utf-8"><title>fltoolkit</title>
<meta http-equiv="refresh" content="0; url=docs/explore/index.html">
<a href="docs/explore/index.html">fltoolkit: how much accuracy does a byte buy?</a>
"""


def _link_what_is_no_page(app, doctree):
    """A link to a file that is no page leads to the figure beside the pages, or to the repository.

    Sphinx would offer the file as a download, where a figure lacks its style and its scripts, or
    print the link's words alone.
    """
    root = Path(app.srcdir)
    for node in list(doctree.findall(addnodes.download_reference)) + list(
        doctree.findall(addnodes.pending_xref)
    ):
        if node.get("reftype") != "myst" or node["reftarget"] in app.env.found_docs:
            continue
        if node.get("refdomain") == "doc":
            target = root / f"{node['reftarget']}.md"
        else:
            target = Path(app.env.relfn2path(node["reftarget"], app.env.docname)[1])
        if target.parent.name == "explore":
            address = node["reftarget"]
        elif target.exists():
            kind = "tree" if target.is_dir() else "blob"
            address = f"{_REPOSITORY}/{kind}/main/{target.relative_to(root).as_posix()}"
        else:
            continue
        node.replace_self(nodes.reference("", "", *node.children, refuri=address))


def _find_words_of_other_systems(app, doctree):
    """The search leads with these words to the page for those who come, before all else.

    They are the systems' names, and the code in headings and in the tables' first columns, each up
    to a bracket.
    """
    if app.env.docname != "docs/coming_from":
        return
    for section in list(doctree.findall(nodes.section)):
        tables = [part for part in section.children if isinstance(part, nodes.table)]
        places = [section[0], *(row[0] for table in tables for row in table.findall(nodes.row))]
        codes = [code.astext() for place in places for code in place.findall(nodes.literal)]
        codes.append(section[0].astext())  # it begins with the system's name
        words = sorted({re.split(r"’| ?[(:]", code)[0] for code in codes})
        entries = [("single", word, section["ids"][0], "main", None) for word in words]
        section.insert(1, addnodes.index(entries=entries))


def _add_explore(app, error):
    """The figures of docs/explore beside the pages that Sphinx made, and the site's first page.

    They also work from a folder, so their links name notebooks, Markdown files and pictures there;
    on the site these are pages, and pictures are where Sphinx puts them.
    """
    if error:
        return
    out = Path(app.outdir)
    explore = out / "docs" / "explore"
    shutil.rmtree(explore, ignore_errors=True)
    shutil.copytree(Path(app.confdir) / "explore", explore)
    for page in explore.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        text = re.sub(r'href="(\.\./[\w./]+)\.(?:ipynb|md)"', r'href="\1.html"', text)
        text = text.replace('src="../images/', 'src="../../_images/')
        page.write_text(text, encoding="utf-8")
    (out / "index.html").write_text(_LANDING, encoding="utf-8")


@cache
def _titles(app):
    """Of each page, its title and the lists of pages below it: its headings without all others."""
    titles = {name: toc.deepcopy() for name, toc in app.env.tocs.items()}
    for top in [top for toc in titles.values() for top in toc if len(top) > 1]:
        top[1][:] = list(top.findall(addnodes.toctree))
        if not top[1]:
            top.pop(1)
    return titles


def _titles_only(app, pagename, templatename, context, doctree):
    """The list of pages at the side: made of titles alone, and not of all headings to drop them.

    With these, the list of 87 pages, made anew for each of them, took a third of the whole time.
    """
    env, whole = app.env, context.get("toctree")

    def toctree(**how):
        headings, env.tocs = env.tocs, _titles(app)
        try:
            return whole(**how)
        finally:
            env.tocs = headings

    if whole:
        context["toctree"] = toctree


def setup(app):
    """Sphinx calls this."""
    app.connect(
        "doctree-read", _link_what_is_no_page, priority=400
    )  # before downloads are collected
    app.connect("doctree-read", _find_words_of_other_systems)
    app.connect("html-page-context", _titles_only, priority=400)  # before the theme's
    app.connect("build-finished", _add_explore)
