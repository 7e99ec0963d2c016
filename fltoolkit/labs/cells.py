"""Which notebook cell made which lab: a cell that runs again stops the labs that it made before."""

import sys
import weakref
from typing import Any

_made_in: dict[str, weakref.WeakKeyDictionary[Any, str]] = {}  # cell -> lab -> execution


def replace_earlier(lab: Any) -> None:
    """Stop the labs that this notebook cell made when it ran before, and note that it made ``lab``.

    Their buttons are no longer shown. Outside a notebook nothing happens.
    """
    if request := _request():
        cell, execution = request
        labs = _made_in.setdefault(cell, weakref.WeakKeyDictionary())
        for earlier in [other for other, made in labs.items() if made != execution]:
            earlier.stop()
            del labs[earlier]
        labs[lab] = execution


def _request() -> tuple[str, str] | None:
    """The notebook cell that is running, and the number of this execution; None outside a cell.

    JupyterLab, Notebook and VS Code give each cell an id. Elsewhere the cell's code stands for it.
    """
    ipython = sys.modules.get("IPython")  # in a kernel it is imported already
    kernel = getattr(ipython.get_ipython() if ipython else None, "kernel", None)
    message = kernel.get_parent() if kernel else {}
    code = message.get("content", {}).get("code")  # a button that was pressed has none
    if code is None:
        return None
    return message.get("metadata", {}).get("cellId") or code, message["header"]["msg_id"]
