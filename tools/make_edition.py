"""Write the notebooks without their outputs: the edition that Binder and Colab open.

    python tools/make_edition.py FOLDER     # as `fltoolkit course FOLDER` copies them
    python tools/make_edition.py --strip A  # remove the outputs of A/*.ipynb, as in Binder's image

On GitHub and on the site the notebooks show what they print. Whoever works through them should
guess first, so the workflow course.yml publishes the other edition as the branch `course`, to which
the Colab buttons lead. The package need not be installed for this.
"""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    spec = importlib.util.spec_from_file_location("cli", ROOT / "fltoolkit_course" / "cli.py")
    course = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(course)
    if arguments[0] == "--strip":
        for path in Path(arguments[1]).glob("*.ipynb"):
            text = path.read_text(encoding="utf-8")
            path.write_text(course.without_outputs(text), encoding="utf-8", newline="\n")
        return 0
    print(f"{arguments[0]}: {len(course.copy_notebooks(arguments[0]))} files copied")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2 + ("--strip" in sys.argv):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
