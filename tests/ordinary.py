"""Commands that run as an ordinary user, for tests that root starts."""

import os
import stat
import sys
from pathlib import Path

USER = 54321


def ordinary(*command: str, writable: str = "") -> list[str]:
    """A command that runs ``command`` as an ordinary user, who owns the folder ``writable``.

    Python may lie where only root gets to (/root): the user then sees a way to it.
    """
    if os.geteuid() != 0:
        return [*command]
    paths = {sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]), writable} - {""}
    closed: dict[str, list[str]] = {}
    for path in sorted({os.path.realpath(path) for path in paths}):
        for parent in reversed(Path(path).parents):
            if not os.stat(parent).st_mode & stat.S_IXOTH:
                closed.setdefault(str(parent), []).append(path)
                break
    view = ["bwrap", "--die-with-parent", "--dev-bind", "/", "/"]
    for above, inside in closed.items():
        view += ["--perms", "0755", "--tmpfs", above]
        for path in inside:
            for parent in reversed(Path(path).relative_to(above).parents[:-1]):
                view += ["--perms", "0755", "--dir", f"{above}/{parent}"]
            view += ["--bind", path, path]
    if writable:
        for place in [Path(writable), *Path(writable).rglob("*")]:
            os.chown(place, USER, USER)
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    return [*view, "--", *become, *command]
