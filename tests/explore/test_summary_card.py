"""The summary card on paper: one page of A4, nothing cut off."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser


def test_the_card_is_one_page(site: Path, browser: Any) -> None:
    tab = browser.new_page(viewport={"width": 696, "height": 1040})
    tab.goto((site / "docs" / "summary_card.html").as_uri())
    pdf = tab.pdf(prefer_css_page_size=True)
    assert re.findall(rb"/Count (\d+)", pdf) == [b"1"]
    tab.emulate_media(media="print")
    card = tab.locator("#summary-card").bounding_box()
    assert 700 < card["height"] < 275 / 25.4 * 96
    for picture in tab.locator("#summary-card img").all():
        assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
        assert picture.get_attribute("alt")
    tab.close()
