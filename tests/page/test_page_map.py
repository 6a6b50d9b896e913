"""The map by keyboard, pointer and fingers; what topics, map and model say when something is missing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving import Running, running
from tabs import Tab

TIP = ".map-tip:not([hidden])"


def open_map(tab: Tab) -> Any:  # noqa: ANN401
    page = tab.open("/map")
    page.locator("canvas").wait_for(timeout=60_000)  # the first time, it is computed
    return page


def test_arrow_keys_go_from_title_to_title_and_enter_searches(tab: Tab, shop: Running) -> None:
    page, titles = open_map(tab), shop.client.get("/map").json()["titles"]
    seen = []
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft"):
        page.locator("canvas").press(key)
        page.locator(TIP).wait_for()
        seen.append(page.locator(TIP).inner_text())
    assert len(set(seen)) > 1
    assert set(seen) <= set(titles)
    page.locator("canvas").press("Enter")
    page.locator("#hits .title").first.wait_for()
    assert page.get_by_role("searchbox").input_value() == seen[-1]


def test_the_wheel_zooms_and_a_drag_opens_nothing(tab: Tab) -> None:
    page = open_map(tab)
    box = page.locator("canvas").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = page.locator("canvas").screenshot()
    page.mouse.move(*middle)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(100)
    zoomed = page.locator("canvas").screenshot()
    assert zoomed != before
    page.mouse.down()
    page.mouse.move(middle[0] - 90, middle[1] - 40, steps=4)
    page.mouse.up()
    page.wait_for_timeout(100)
    assert page.locator("canvas").screenshot() != zoomed
    assert page.url.endswith("#/map")


def test_a_map_that_is_still_being_drawn_is_asked_for_again(tab: Tab) -> None:
    answers = [{"pending": True}, {"pending": True}]

    def answer(route: Any) -> None:  # noqa: ANN401
        if answers:
            route.fulfill(status=202, json=answers.pop())
        else:
            route.continue_()

    tab.page.route("**/map", answer)
    open_map(tab)
    assert not answers


def test_dead_cells_are_told(tab: Tab) -> None:
    def answer(route: Any) -> None:  # noqa: ANN401
        response = route.fetch()
        told = response.json()
        route.fulfill(response=response, json=told | {"dead": [told["topics"][0]["dimension"]]})

    tab.page.route("**/topics", answer)
    page = tab.open("/topics")
    page.locator("article.topic.dead").wait_for()
    assert "Dead" in page.locator("article.topic.dead").inner_text()
    assert "1 dead cell" in page.locator("#view").inner_text()


def test_a_model_without_cells_has_no_topics(tab: Tab) -> None:
    def answer(route: Any) -> None:  # noqa: ANN401
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"has_cells": False})

    tab.page.route("**/about", answer)
    tab.open("/topics").get_by_role("heading", name="This model has no cells").wait_for()


def test_a_damaged_file_about_the_model_is_a_sentence(
    page_index: Path, tmp_path: Path, open_tab: Callable[..., Tab]
) -> None:
    (tmp_path / "about").mkdir()
    (tmp_path / "about" / "measured.json").write_text("{")
    with running(page_index, tmp_path, about=tmp_path / "about") as service:
        page = open_tab(service).open("/model")
        page.get_by_text("measured.json is damaged").wait_for()
        page.get_by_role("heading", name="Training").wait_for()
