"""Everyone can use the page: screen readers (axe-core), both colour schemes, narrow screens, keyboards, less motion."""

from collections.abc import Callable

import pytest
from serving import Running
from tabs import VIEWS, Tab, show_view

axe_api = pytest.importorskip("axe_playwright_python.sync_playwright")

SCHEMES = ["light", pytest.param("dark", marks=pytest.mark.slow)]
PHONE = {"width": 360, "height": 740}
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def check_access(tab: Tab) -> None:
    """Let axe-core look at what is shown, and fail if it finds something serious or critical."""
    found = axe_api.Axe().run(tab.page, options={"runOnly": TAGS, "resultTypes": ["violations"]}).response["violations"]
    serious = [
        (violation["id"], violation["help"], [node["html"][:160] for node in violation["nodes"][:3]])
        for violation in found if violation["impact"] in ("serious", "critical")
    ]  # fmt: skip
    assert serious == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(shop: Running, open_tab: Callable[..., Tab], view: str, scheme: str) -> None:
    tab = open_tab(shop, color_scheme=scheme, reduced_motion="reduce")
    show_view(tab, view)
    check_access(tab)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious_in_states_and_dialogs(
    shop: Running, open_tab: Callable[..., Tab], scheme: str
) -> None:
    tab = open_tab(shop, color_scheme=scheme, reduced_motion="reduce")
    page = tab.open()
    check_access(tab)  # before the first query
    page.get_by_role("button", name="Keyboard shortcuts").click()
    check_access(tab)
    page.keyboard.press("Escape")
    tab.expected = "Failed to load resource"
    refusal = '{"error": {"code": "key_missing", "message": "The API key is not valid."}}'
    page.route("**/search", lambda route: route.fulfill(status=401, content_type="application/json", body=refusal))
    page.get_by_role("searchbox").fill("bath")
    page.get_by_role("dialog", name="API key").wait_for()
    check_access(tab)
    page.unroute("**/search")
    page.route("**/*", lambda route: route.abort("connectionrefused"))
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("searchbox").fill("tub")
    page.get_by_role("alert").filter(has_text="does not answer").first.wait_for()
    check_access(tab)


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_each_view_without_scrolling_sideways(
    shop: Running, open_tab: Callable[..., Tab], view: str
) -> None:
    tab = open_tab(shop, viewport=PHONE, has_touch=True, is_mobile=True)
    show_view(tab, view)
    wide = tab.page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(node => {
          if (node.closest('.scroll, svg, canvas, .unseen, dialog')) return false;  // these scroll or are cut off
          const box = node.getBoundingClientRect();
          return box.width && box.right > document.documentElement.clientWidth + 1;
        }).map(node => node.outerHTML.slice(0, 120))"""
    )
    assert wide == []
    assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]


def test_colours_follow_the_system_until_the_user_chooses(shop: Running, open_tab: Callable[..., Tab]) -> None:
    def paper(tab: Tab) -> int:
        colour = tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))

    tab = open_tab(shop, color_scheme="dark")
    tab.open()
    assert paper(tab) < 150
    button = tab.page.get_by_role("button", name="Colours")
    button.click()
    assert paper(tab) > 600
    tab.page.reload()
    tab.page.wait_for_selector("main[data-view]")
    assert paper(tab) > 600  # chosen
    button.click()
    button.click()
    assert paper(tab) < 150  # like the system again
    tab.page.emulate_media(color_scheme="light")
    assert paper(tab) > 600


@pytest.mark.slow
def test_nothing_moves_if_the_user_wants_less_motion(shop: Running, open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(shop, reduced_motion="reduce")
    for view in VIEWS:
        show_view(tab, view)
        moving = tab.page.evaluate(
            "() => document.getAnimations().filter(a => a.playState === 'running' && "
            "a.effect.getComputedTiming().duration > 1).map(a => a.effect.target.outerHTML.slice(0, 99))"
        )
        assert moving == []


@pytest.mark.slow
def test_the_text_grows_with_the_zoom(shop: Running, open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(shop, viewport={"width": 640, "height": 450}, device_scale_factor=2)  # 1280 pixels at 200%
    for view in VIEWS:
        show_view(tab, view)
        assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= 640
