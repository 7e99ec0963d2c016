"""README, docs and notebooks with their saved outputs as a website: `make site`."""

project = "fltoolkit"
html_title = "fltoolkit: how much accuracy does a byte buy?"
html_theme = "furo"
extensions = ["myst_nb"]
root_doc = "docs/index"
include_patterns = ["README.md", "docs/*.md", "notebooks/*.ipynb"]
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "myst.xref_missing", "mystnb.unknown_mime_type"]
suppress_warnings += ["misc.highlighting_failure"]  # of cells that are not only Python
