"""Grade as an ordinary user: as_user.py FOLDER MASTER OUT BUBBLEWRAP USER LIMITS, begun by root.

LIMITS is JSON. Python may lie where only root gets to (/root); this process then sees a way of its
own to it. Prints the results as JSON.
"""

import ctypes
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from fltoolkit.assignments import mounts
from fltoolkit.assignments.grading import grade
from fltoolkit.assignments.master import load_master
from fltoolkit.assignments.sandbox import Limits, fences

if __name__ == "__main__":
    folder, master, out, bubblewrap, user, limits = sys.argv[1:]
    project = str(Path(__file__).parents[1])
    if os.getuid() == 0:
        if ctypes.CDLL(None).unshare(mounts.NEW_MOUNTS) == 0 and mounts.leave():
            mounts.open_the_way([sys.base_prefix, sys.prefix, project, folder, master, out])
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    os.environ["HOME"] = out
    how = {"limits": Limits(**json.loads(limits)), "bubblewrap": bubblewrap == "1", "jobs": 2}
    results = grade(folder, load_master(master), out, **how)
    told = {"fences": fences(bubblewrap == "1"), "results": [asdict(r) for r in results]}
    print("\n" + json.dumps(told))
