"""A lab's picture on paper: the same as SVG and as PNG."""

import xml.etree.ElementTree as ElementTree

import pytest
from course.labs.few_digits import small
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fltoolkit_course.labs.layout import lay_out
from fltoolkit_course.labs.picture import compose


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_pictures_of_runs_that_have_hardly_begun(count: int) -> None:
    lab = small()
    assert compose(lab).summary().startswith("Threshold lab: not started")
    lab._going()
    if count:
        lab.run(count)
    picture = compose(lab)
    root = ElementTree.fromstring(lay_out(picture).svg())
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == picture.summary()
    FigureCanvasAgg(lay_out(picture).figure()).draw()
    assert (f"step {count} of 96" in picture.status) == bool(count)
