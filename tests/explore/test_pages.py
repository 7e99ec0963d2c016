import re
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import labserver
import pytest
from explore.conftest import Open

pytestmark = pytest.mark.browser
PAGES = ("index", "playground", "pareto", "language", "silence", "codec", "leakage", "advisor")
UNLINKED = re.compile(r'(?<!">)<span class="xref [^"]*myst">(.*?)</span>')  # not within a link

# What is chosen, in another state than the page begins with.
STATES = {
    "index": "#budget=100000000",
    "pareto": "#data=digits&partition=non-IID&x=seconds&method=SplitNN%2C+float32&target=0.94",
    "language": "#task=split-scratch&x=seconds&rateUp=1&latency=100&target=2.35",
    "playground": "#how=split&cut=5&kept=0.5&bitsUp=4&mission=2&watch=true",
    "silence": "#threshold=0.4",
    "codec": "#tensor=gradient&bits=1&kept=0.05&entropy=true",
    "leakage": "#data=mnist&family=noise&setting=noise+1",
    "advisor": "#clients=1000&cut=128&latency=0",
}


def said(tab: Any) -> str:
    return " ".join(tab.locator("[aria-live]").all_inner_texts())


def state(tab: Any) -> dict[str, str]:
    """What every control holds."""
    return tab.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('main input, main select')]"
        ".map(c => [c.id, c.type === 'checkbox' ? c.checked : c.value]))"
    )


def dead(site: Path) -> list[str]:
    """The links and pictures of all pages of a built site that lead nowhere inside it.

    A fragment with ``=`` is the state of a figure. What Sphinx copies into ``_downloads`` lacks
    what stood beside it, so a page there is dead too.
    """
    texts = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    marks = {
        page: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for page, text in texts.items()
    }
    found = []
    for page, text in texts.items():
        for url in re.findall(r'\s(?:src|href)="([^"]+)"', text):
            parts = urlsplit(unescape(url))
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = target.exists() and "_downloads" not in target.parts
            mark = unquote(parts.fragment)
            if there and mark and "=" not in mark and target in marks:
                there = mark in marks[target]
            if not (there or parts.scheme or parts.netloc):
                found.append(f"{page.relative_to(site)}: {url}")
        found += [f"{page.relative_to(site)}: no link, {words}" for words in UNLINKED.findall(text)]
    return found


def test_the_site_begins_with_the_figures_and_every_link_leads_somewhere(site: Path) -> None:
    assert "url=docs/explore/index.html" in (site / "index.html").read_text(encoding="utf-8")
    front = (site / "docs" / "index.html").read_text(encoding="utf-8")
    assert 'href="explore/index.html"' in front
    assert len(list((site / "docs" / "explore").glob("*.html"))) == 8
    assert dead(site.resolve()) == []


def test_the_documentation_begins_with_the_figure_that_moves(context: Any, site: Path) -> None:
    tab = context.new_page()
    tab.set_viewport_size({"width": 360, "height": 800})
    tab.goto((site / "docs" / "index.html").as_uri())
    tab.wait_for_selector("iframe")
    frame = next(part for part in tab.frames if part.url.endswith("explore/index.html"))
    frame.wait_for_selector("html[data-ready]")
    before = frame.locator("#said").inner_text()
    frame.locator("#budget").press("End")
    assert frame.locator("#said").inner_text() != before
    assert not frame.locator("h1").is_visible()
    assert frame.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tab.close()


WORDS = (
    "DataLoader Dataset torch.compile clip_grad_norm_ encoder MeanFactory EncodedSumFactory SLModel"
    " split_steps loss_thres max_fuse_local_steps interval_steps replicas_to_aggregate .send .move"
    " total_num_replicas VirtualWorker TorchHook Flower Strategy NumPyClient num_rounds"
    " SecretFlow coMind PySyft AMP EMA scheduler"
)


def test_the_first_hit_for_a_word_of_another_system_is_the_page_for_those_who_come(
    context: Any, site: Path
) -> None:
    tab = context.new_page()
    tab.goto((site / "search.html").as_uri())
    tab.wait_for_function("Search.hasIndex()")
    ask = "words => words.map(w => Search._performSearch(...Search._parseQuery(w)).at(-1)?.[0])"
    hits = tab.evaluate(ask, WORDS.split())
    assert dict(zip(WORDS.split(), hits, strict=True)) == dict.fromkeys(
        WORDS.split(), "docs/coming_from"
    )
    tab.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_on_a_wide_screen_and_another_state_of_it_on_a_phone(
    open_page: Open, name: str
) -> None:
    for hash, scheme, width in (("", "light", 1280), (STATES[name], "dark", 360)):
        tab = open_page(name, hash, scheme=scheme, width=width)
        labserver.ARTIFACTS.mkdir(exist_ok=True)
        picture = labserver.ARTIFACTS / f"explore_{name}_{scheme}_{width}.png"
        tab.screenshot(path=picture, full_page=True)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        clash = tab.evaluate(_CLASH)
        assert not clash, clash
        paper = tab.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


# Pairs of words of one picture that lie on each other, and words that are cut off at its edge.
_CLASH = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('.figure svg')) {
    const edge = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll('text')].filter(t => t.textContent)
      .map(t => ({text: t.textContent, box: t.getBoundingClientRect()}));
    words.forEach(({text, box}, i) => {
      if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.bottom > edge.bottom + 1)
        found.push('cut off: ' + text);
      for (const other of words.slice(i + 1)) {
        const o = other.box, w = Math.min(box.right, o.right) - Math.max(box.left, o.left);
        const h = Math.min(box.bottom, o.bottom) - Math.max(box.top, o.top);
        if (w > 1 && h > 3) found.push(text + ' / ' + other.text);
      }
    });
  }
  return found; }"""


@pytest.mark.parametrize("name", PAGES)
def test_the_address_holds_the_state_and_nonsense_in_it_does_no_harm(
    open_page: Open, name: str
) -> None:
    tab = open_page(name)
    begin = state(tab), said(tab)
    for control in tab.locator("main select").all():
        if control.is_visible():
            values = control.locator("option:not([disabled])").evaluate_all(
                "all => all.map(o => o.value)"
            )
            control.select_option(values[-1])
    for control in tab.locator("main input[type=range]").all():
        if control.is_visible():
            control.focus()
            control.press("ArrowRight")
            control.press("ArrowRight")
    moved = state(tab), said(tab)
    assert moved != begin
    address = tab.url
    assert "#" in address
    again = open_page(name, "#" + address.partition("#")[2])
    assert (state(again), said(again)) == moved
    again.evaluate("location.hash = ''")  # and back, as the browser's own button goes
    labserver.wait_for(again, lambda: (state(again), said(again)) == begin)
    nonsense = "&".join(f"{key}=nonsense%00" for key in begin[0])
    assert said(open_page(name, "#" + nonsense)) == begin[1]


@pytest.mark.parametrize("name", PAGES)
def test_those_who_do_not_see_can_use_it(open_page: Open, name: str) -> None:
    tab = open_page(name, width=360)  # where tables scroll sideways
    links = tab.locator("nav a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert links == [f"{page}.html" for page in PAGES]
    assert tab.locator("nav a[aria-current=page]").get_attribute("href") == f"{name}.html"
    nameless = tab.evaluate(
        "() => [...document.querySelectorAll('main input, main select')]"
        ".filter(c => !c.labels.length || !c.labels[0].textContent.trim()).map(c => c.id)"
    )
    assert not nameless
    for control in tab.locator("main input[type=range]").all():
        assert control.get_attribute("aria-valuetext")
    for picture in tab.locator(".figure svg").all():
        if picture.get_attribute("role") == "presentation":  # then its marks are named
            options = picture.locator("[role=option]")
            assert all(option.get_attribute("aria-label") for option in options.all())
            assert picture.locator("[aria-selected=true]").count() == 1
        else:
            assert picture.get_attribute("role") == "img"
            assert picture.get_attribute("aria-label")
    before = said(tab)
    tab.locator("main input[type=range]").first.press("Home")
    assert said(tab) != before
    unreached = tab.evaluate(
        "() => [...document.querySelectorAll('.scroll')]"
        ".filter(box => box.scrollWidth > box.clientWidth && box.tabIndex < 0).length"
    )
    assert unreached == 0
    heads = tab.locator("h1, h2, h3").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert heads[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(heads))


def test_the_two_lines_are_dragged(open_page: Open) -> None:
    tab = open_page("pareto")
    for grip, said, (across, down) in (
        (".draggable-x", "#atbudget", (150, 0)),
        (".draggable-y", "#attarget", (0, 60)),
    ):
        before, box = tab.inner_text(said), tab.locator(f"#plot {grip}").bounding_box()
        x = box["x"] + (box["width"] / 2 if across else 30)
        y = box["y"] + (box["height"] - 30 if across else box["height"] / 2)
        tab.mouse.move(x, y)
        tab.mouse.down()
        tab.mouse.move(x + across, y + down, steps=5)
        tab.mouse.up()
        assert tab.inner_text(said) != before
        after = tab.locator(f"#plot {grip}").bounding_box()
        assert after["x"] - box["x"] == pytest.approx(across, abs=40)
    assert "budget=" in tab.url
    assert "target=" in tab.url


def test_marks_are_chosen_by_mouse_and_by_keys(open_page: Open) -> None:
    tab = open_page("pareto")
    mark = tab.locator("#plot").get_by_role("option", name=re.compile("^SplitNN, float32"))
    mark.hover()
    assert "SplitNN, float32" in tab.locator("#plot .label").all_text_contents()
    assert tab.inner_text("#name") == "SplitNN, float32"  # its ledger, seeds and code too
    assert 'protocol="relay"' in tab.inner_text("#code")
    tab.mouse.move(2, 2)
    assert tab.inner_text("#name") == "3 bits + EF both ways"
    mark.click()
    assert re.match(r"SplitNN, float32: 9\d\.\d\d % .* for 944\.4 MB", tab.inner_text("#chosen"))
    assert 'protocol="relay"' in tab.inner_text("#code")
    tab.locator("#plot").focus()
    tab.keyboard.press("Home")
    assert tab.inner_text("#chosen").startswith("each owner alone, mean")
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text("#chosen").startswith("each owner alone, worst")
    active = tab.get_attribute("#plot", "aria-activedescendant")
    assert "each owner alone, worst" in tab.get_attribute(f"#{active}", "aria-label")


def test_settings_of_leakage_are_chosen_in_the_picture(open_page: Open) -> None:
    tab = open_page("leakage")
    tab.locator("#plot").get_by_role("option", name=re.compile("^top-k 1%")).click()
    assert tab.inner_text("#said").startswith("top-k 1%: ")
    assert tab.input_value("#family") == "top-k"
    tab.select_option("#family", "noise")
    assert tab.inner_text("#said").startswith("noise 0.25: ")
    assert tab.locator("#guesses").is_visible()
    tab.select_option("#view", "rare")
    assert not tab.locator("#guesses").is_visible()
