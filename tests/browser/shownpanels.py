"""What follows in the panels of notebooks 07 and 08 and of the codec gallery when one acts.

test_notebooks_in_lab.py has these notebooks open and looks here at their panels.
"""

from typing import Any

from labserver import Notebook, wait_for

from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.codecs.stage import Stage
from fltoolkit_research.leakage import Noise


def codec(bits: int = 32, sigma: float = 0.0) -> str:
    stages: list[Stage] = [Noise(sigma)] if sigma else []
    return repr(Pipeline(*stages, *([Quantize(bits)] if bits < 32 else [])))


def picture(notebook: Notebook, cell: int) -> dict[str, Any]:
    return notebook.outputs(cell)[2]["data"]  # after a sentence and the controls


def points_at_settings(notebook: Notebook, cell: int) -> None:
    """Notebook 07."""
    page, area = notebook.page, notebook.show(cell)
    area.locator("img[src^='data:image/png']").wait_for()
    notebook.screenshot("tradeoff_panel_start")
    words = area.locator(".widget-html").last  # below the picture
    words.get_by_text("delta-coded cache: ").wait_for()
    names = notebook.ask("print(*panel.slider.options, sep='|')").split("|")

    area.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    chosen = names[names.index("delta-coded cache") + 1]
    words.get_by_text(f"{chosen}: ").wait_for()
    page.keyboard.press("End")  # the one with the most bytes
    words.get_by_text(f"{names[-1]}: ").wait_for()
    shown = notebook.ask(
        "from fltoolkit_course.panels import describe_point\n"
        "print(describe_point(results, panel.selected))"
    )
    assert shown.startswith(f"{names[-1]}: ")
    assert "ledger of the first seed" in shown
    assert words.inner_text().strip() == shown
    wait_for(page, lambda: picture(notebook, cell)["text/plain"].strip() == shown)
    assert set(picture(notebook, cell)) == {"image/png", "text/plain"}
    notebook.screenshot("tradeoff_panel_end")

    notebook.ask(f"panel.slider.value = {names[0]!r}")  # another cell moves the slider
    words.get_by_text(f"{names[0]}: ").wait_for()
    wait_for(page, lambda: picture(notebook, cell)["text/plain"].startswith(f"{names[0]}: "))


def bits_and_noise_change_what_is_seen(notebook: Notebook, cell: int) -> None:
    """Notebook 08."""
    page, area = notebook.page, notebook.show(cell)
    area.locator("img[src^='data:image/png']").wait_for()
    sentence = area.locator(".widget-html").first
    sentence.get_by_text(codec(bits=2, sigma=0.5), exact=True).wait_for()
    notebook.screenshot("leak_panel_start")

    def now() -> tuple[str, str, str]:
        """What the sentence says, what the picture says, and the picture."""
        data = picture(notebook, cell)
        return sentence.inner_text().splitlines()[0], data["text/plain"], data["image/png"]

    def follows(words: str, before: tuple[str, str, str]) -> None:
        sentence.get_by_text(words, exact=True).wait_for()
        wait_for(page, lambda: now()[0] == now()[1] != before[1] and now()[2] != before[2])

    def slider(name: str) -> Any:
        return area.locator(".widget-hslider").filter(has_text=name).get_by_role("slider")

    start = now()
    assert start[0] == start[1]
    slider("bits per value").focus()
    page.keyboard.press("End")
    follows(codec(sigma=0.5), start)
    assert now()[0].startswith("2,560."), "640 values in float32 again"
    noisy = now()
    slider("noise, sigma").focus()
    page.keyboard.press("Home")
    follows(codec(), noisy)
    notebook.screenshot("leak_panel_float32")
    open_link = now()
    slider("bits per value").focus()
    page.keyboard.press("Home")
    follows(codec(bits=1), open_link)
    notebook.screenshot("leak_panel_1_bit")
    one_bit = now()
    area.get_by_text("attack the positions alone").click()
    follows(f"{codec(bits=1)}, positions alone", one_bit)
    notebook.screenshot("leak_panel_positions")


def follows_dropdown_and_keyboard(notebook: Notebook, cell: int) -> None:
    """The codec gallery."""
    page, area = notebook.page, notebook.show(cell)
    readout, sentence = (area.locator(".widget-html").nth(n) for n in (0, 1))
    readout.get_by_text("Quantize(bits=4").wait_for()
    area.locator("img[src^='data:image/png']").wait_for()
    notebook.screenshot("codec_gallery_start")
    said = {sentence.inner_text()}

    chosen, bits = area.get_by_label("codec", exact=True), page.get_by_role("slider").first
    chosen.select_option("LloydMax")
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
    wait_for(page, lambda: notebook.ask("print(panel.controls['tensor'].value)") == "update")
    shown = notebook.ask("print(panel.report.sentence)")
    wait_for(page, lambda: set(picture(notebook, cell)) == {"image/png", "text/plain"})
    wait_for(page, lambda: picture(notebook, cell)["text/plain"] == f"LloydMax: {shown}")
    area.locator("img[src^='data:image/png']").wait_for()  # everything rests: PNG again
    notebook.screenshot("codec_gallery_lloydmax")
    assert sentence.inner_text() == shown
    assert (
        notebook.ask("print(describe_codec(tensors['update'], panel.codec) == panel.report)")
        == "True"
    )

    chosen.select_option("Sign")
    readout.get_by_text("Sign uses no bits and no fraction: switched off").wait_for()
    notebook.screenshot("codec_gallery_sign")
    wait_for(page, lambda: picture(notebook, cell)["text/plain"].startswith("Sign: "))
    wait_for(page, lambda: "image/png" in picture(notebook, cell))
    chosen.select_option("Quantize, nearest")
    readout.get_by_text("Quantize(bits=").wait_for()


PANELS = {
    "TradeoffPanel(": points_at_settings,
    "LeakPanel(": bits_and_noise_change_what_is_seen,
    "CodecPanel(": follows_dropdown_and_keyboard,
}
