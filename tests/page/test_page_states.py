"""What the page shows when something is missing: no service, a busy one, an error, no result, an odd link."""

import json

import pytest
from tabs import Tab

FAILED = "Failed to load resource"


def alert(tab: Tab, text: str):  # noqa: ANN201
    return tab.page.get_by_role("alert").filter(has_text=text).first


def test_the_service_goes_away_and_comes_back(tab: Tab) -> None:
    page = tab.open("/search?q=bath")
    page.locator("#hits li").first.wait_for()
    tab.expected = FAILED
    page.route("**/*", lambda route: route.abort("connectionrefused"))
    page.get_by_role("searchbox").press_sequentially(" tub")
    alert(tab, "does not answer").wait_for()
    with page.expect_request("**/healthz"):
        page.get_by_role("button", name="Try now").click()
    page.unroute("**/*")
    page.locator("#hits li").first.wait_for()  # it tries again by itself
    alert(tab, "does not answer").wait_for(state="hidden")
    assert page.get_by_role("searchbox").input_value() == "bath tub"


def test_the_page_opens_while_the_service_is_away(tab: Tab) -> None:
    tab.expected = FAILED
    tab.page.route("**/about", lambda route: route.abort("connectionrefused"))
    tab.page.goto(f"{tab.origin}/#/search?q=bath")
    alert(tab, "does not answer").wait_for()
    tab.page.unroute("**/about")
    tab.page.locator("#hits li").first.wait_for()  # it tries again by itself


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (429, "too_many_requests", "The service is busy with 64 requests; try again."),
        (503, "unavailable", "The service cannot do this now; its disk is full."),
        (504, "timeout", "The request took over 10 s."),
        (500, "internal_error", "The service has a bug; its log tells where."),
    ],
)
def test_an_error_of_the_service_is_told_and_can_be_tried_again(tab: Tab, status: int, code: str, message: str) -> None:
    tab.expected = FAILED
    body = json.dumps({"error": {"code": code, "message": message}})
    tab.page.route("**/search", lambda route: route.fulfill(status=status, content_type="application/json", body=body))
    page = tab.open("/search?q=bath")
    alert(tab, message).wait_for()
    page.unroute("**/search")
    page.get_by_role("button", name="Try again").first.click()
    page.locator("#hits li").first.wait_for()


def test_the_error_page_of_a_proxy_is_no_answer(tab: Tab) -> None:
    tab.expected = FAILED
    tab.page.route(
        "**/search", lambda route: route.fulfill(status=502, content_type="text/html", body="<h1>Bad gateway</h1>")
    )
    tab.open("/search?q=bath")
    alert(tab, "502").wait_for()


@pytest.mark.parametrize(
    "fragment",
    [
        "/nowhere",
        "//",
        "/search?q=%E0%A4%A&x=%",
        "/__proto__?q=1",
        "/search?q=" + "a" * 3000,
        "search?q=bath#x",
        "/why",
    ],
)
def test_an_odd_link_opens_a_view(tab: Tab, fragment: str) -> None:
    tab.expected = FAILED if len(fragment) > 1000 else ""
    page = tab.open(fragment)
    assert page.get_by_role("navigation", name="Views").get_by_role("link").count() >= 1
    assert page.get_by_role("heading", level=1).count() == 1
