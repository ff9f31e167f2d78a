"""Who does not see the page, or uses no mouse: what a screen reader is told, and where the focus goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ops.pages import tokens
from tests.browser.eyes import SCRIPTS, SIZES, Eyes
from tests.live_page import Page, Tenant

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOCUSED = (SCRIPTS / "focused.js").read_text()
USED = ("button", "link", "textbox", "searchbox", "combobox", "checkbox", "DisclosureTriangle")
HEADINGS = {
    "": ["Overview", "Jobs", "Events", "Consumer lag", "CDC slots", "Alerts", "Coming in", "Reconciler"],
    "/windows": ["Windows and lanes", "Open windows", "Lanes"],
    "/jobs": ["Jobs"],
    "/delays": ["Delays", "By due time", "Next"],
    "/letters": ["Dead letters", "By reason"],
    "/alerts": ["Alerts"],
    "/instances": ["WhatsApp instances", "By state", "Under way, longest first", "The reconciler's runs"],
    "/search": ["Search"],
    "/shadow": ["Shadow", "Found"],
}
"""Path → what its headings say, in order, without those of each alert and each finding."""


def paths_of(tenant: Tenant) -> list[str]:
    """Pages of one thing."""
    acts = (f"/jobs/{tenant.held}/release", f"/letters/{tenant.place}/requeue")
    return [f"/letters/{tenant.place}", f"/search?q={tenant.event_id}", "/search?q=none", *acts]


@pytest.mark.usefixtures("shadow")
@pytest.mark.parametrize("size", SIZES)
def test_each_page_is_told_to_a_screen_reader(chromium: Browser, page: Page, bia: Tenant, size: str) -> None:
    width, height = SIZES[size]
    context = chromium.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    eyes = Eyes(context, page)
    eyes.log_in(page.token(operator=True, phones=True))
    for path in (*HEADINGS, *paths_of(bia)):
        eyes.open(path)
        eyes.tab.wait_for_timeout(200)
        assert eyes.wrong("accessible") == [], path
        tree = eyes.tree()
        assert [len(tree.of(one)) for one in ("banner", "main", "search")] == [1, 1, 1], path
        assert tree.of("navigation") == ["Pages"] and len(tree.of("status")) >= 1, path
        assert all(name.strip() for name in tree.of(*USED, "region", "heading", "table", "image")), (
            path,
            tree.told,
        )
        said = [one for one in tree.of("heading") if one in HEADINGS.get(path, ())]
        assert said == HEADINGS.get(path, []), path
        tables = eyes.tab.locator("table").count()
        assert len(tree.of("table")) == tables, f"{path}: a table that is none to a screen reader"
        for role, selector in (("row", "tr"), ("columnheader", "th"), ("cell", "td"), ("listitem", "li")):
            assert len(tree.of(role)) == eyes.tab.locator(f"{selector}:visible").count(), (path, role)
    eyes.open("/search?q=none")
    assert len(eyes.tree().of("alert")) == 1, "what was typed wrong is said at once"
    eyes.open("/jobs")
    assert {f"{verb} job {bia.held[:8]}" for verb in ("Release", "Run now", "Cancel")} <= set(
        eyes.tree().of("link")
    ), "each act says of which job"
    context.close()
    assert not eyes.complaints


@pytest.mark.parametrize("size", SIZES)
def test_the_focus_goes_through_each_page_in_order_and_is_seen(
    chromium: Browser, page: Page, bia: Tenant, size: str
) -> None:
    width, height = SIZES[size]
    context = chromium.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    eyes = Eyes(context, page)
    eyes.open("/login")
    eyes.tab.get_by_label("Token").wait_for()
    assert eyes.tab.evaluate(FOCUSED)["what"].startswith('<input id="token"'), "one can paste at once"
    eyes.log_in(page.token(operator=True, of=bia))
    for path in (*(one for one in HEADINGS if one != "/shadow"), *paths_of(bia)):
        eyes.open(path)
        eyes.tab.evaluate("document.activeElement.blur()")
        places = []
        for _ in range(100):
            eyes.tab.keyboard.press("Tab")
            found = eyes.tab.evaluate(FOCUSED)
            if found["place"] == -1:
                break  # it has left the page
            assert found["outline"] >= 2 and found["seen"], (path, found)
            places.append(found["place"])
            if len(places) == found["of"]:
                break
        assert places == list(range(found["of"])), (path, places, found)
    context.close()


def test_a_session_that_ends_is_said(eyes: Eyes, page: Page, bia: Tenant) -> None:
    eyes.log_in(page.token(of=bia))
    told = eyes.tab.get_by_role("status")
    told.filter(has_text="live").wait_for()
    (newest, *_) = tokens.tokens(page.stage.connection, None, revoked=False)
    tokens.revoke(page.stage.connection, newest.id)
    told.filter(has_text="your session has ended: log in again").wait_for()
