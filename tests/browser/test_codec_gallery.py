"""The codec gallery in real JupyterLab: another codec, other bits, and everything follows."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from labserver import Server, open_notebook, wait_for

pytestmark = pytest.mark.browser
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def test_the_codec_panel_follows_dropdown_and_keyboard(
    folder: Path, server: Server, page: Any
) -> None:
    shutil.copy(NOTEBOOKS / "codec_gallery.ipynb", folder)
    opened = open_notebook(page, server, "codec_gallery.ipynb")
    (cell,) = [n for n, c in enumerate(opened.cells()) if "= codec_panel(" in c["source"]]
    opened.run_all()
    opened.wait_until_idle(180)
    area = opened.show(cell)
    readout, sentence = (area.locator(".widget-html").nth(n) for n in (0, 1))
    readout.get_by_text("Quantize(bits=4").wait_for()
    area.locator("img[src^='data:image/png']").wait_for()
    opened.screenshot("codec_gallery_start")
    said = {sentence.inner_text()}

    codec, bits = area.get_by_label("codec", exact=True), page.get_by_role("slider").first
    codec.select_option("LloydMax")
    readout.get_by_text("LloydMax(bits=4").wait_for()
    readout.get_by_text("LloydMax uses no fraction: switched off").wait_for()
    said.add(sentence.inner_text())

    bits.focus()
    for _ in range(2):  # 4, 3, 2
        page.keyboard.press("ArrowLeft")
    readout.get_by_text("LloydMax(bits=2").wait_for()
    area.get_by_text("with entropy coding").click()
    readout.get_by_text("Entropy()").wait_for()
    said.add(sentence.inner_text())
    assert len(said) == 3, said

    area.get_by_label("tensor", exact=True).select_option("update")
    wait_for(page, lambda: opened.ask("print(panel.controls['tensor'].value)") == "update")
    shown = opened.ask("print(panel.report.sentence)")
    wait_for(page, lambda: set(opened.outputs(cell)[2]["data"]) == {"image/png", "text/plain"})
    wait_for(page, lambda: opened.outputs(cell)[2]["data"]["text/plain"] == f"LloydMax: {shown}")
    area.locator("img[src^='data:image/png']").wait_for()  # everything rests: PNG again
    opened.screenshot("codec_gallery_lloydmax")
    assert sentence.inner_text() == shown
    assert opened.ask("print(describe_codec(update, panel.codec) == panel.report)") == "True"

    codec.select_option("Sign")
    readout.get_by_text("Sign uses no bits and no fraction: switched off").wait_for()
    page.wait_for_timeout(200)
    opened.screenshot("codec_gallery_sign")
    wait_for(page, lambda: "image/png" in opened.outputs(cell)[2]["data"])
    assert opened.outputs(cell)[2]["data"]["text/plain"].startswith("Sign: ")
