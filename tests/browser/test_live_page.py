"""The live page in a real browser: what people do on it, by mouse, by keys, in the dark, on a phone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from ops.shadow.words import WORDS
from tests.browser.eyes import SIZES, Eyes
from tests.live_page import Page, Tenant

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATHS = ("", "/windows", "/jobs", "/delays", "/letters", "/alerts", "/instances", "/search")


def test_an_operator_logs_in_searches_and_logs_out(eyes: Eyes, page: Page, bia: Tenant) -> None:
    tab = eyes.tab
    eyes.log_in(page.token(operator=True))
    tab.get_by_role("searchbox").fill(bia.event_id)
    tab.keyboard.press("Enter")
    tab.get_by_role("heading", name=re.compile(f"Event {bia.event_id}")).wait_for()
    assert tab.get_by_role("link", name=bia.patient.contact_id).count() == 1
    tab.get_by_role("button", name="Log out").click()
    tab.get_by_label("Token").wait_for()
    eyes.open("/jobs")
    assert tab.url.startswith(f"{page.address}/live/login?next=")


def test_regions_follow_what_happens_and_countdowns_tick(eyes: Eyes, page: Page) -> None:
    tab = eyes.tab
    eyes.log_in(page.token(phones=True))
    tab.locator("#pulse", has_text="live").wait_for()
    tenant = page.stage.tenant(text="A brand new trouble")
    tab.locator("[data-region=coming] a", has_text=tenant.event_id[:8]).wait_for()
    tab.locator("[data-region=alerts]", has_text="A brand new trouble").first.wait_for()
    eyes.open("/windows")
    row = tab.locator("[data-region=windows] tr", has_text=tenant.patient.contact_id[:8])
    row.wait_for()
    before = row.locator("time").inner_text()
    tab.wait_for_timeout(1_500)
    assert row.locator("time").inner_text() != before


def test_what_has_the_focus_is_not_taken_away(eyes: Eyes, page: Page) -> None:
    tenant = page.stage.tenant(text="Look at me")
    tab = eyes.tab
    eyes.log_in(page.token(operator=True, of=tenant))
    eyes.open("/alerts")
    button = tab.get_by_role("button", name="Acknowledge")
    button.focus()
    tab.wait_for_timeout(3_000)
    assert tab.evaluate("document.activeElement.textContent") == "Acknowledge"
    tab.keyboard.press("Enter")
    tab.locator(".mark", has_text="ack").wait_for()
    tab.get_by_role("button", name="Resolve").click()
    tab.get_by_text("Nothing is wrong.").wait_for()


def test_an_order_is_given_by_keys_alone(eyes: Eyes, page: Page) -> None:
    tenant = page.stage.tenant()
    tab = eyes.tab
    eyes.log_in(page.token(operator=True, of=tenant))
    eyes.open("/jobs?status=held")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "To the content"
    tab.keyboard.press("Enter")
    for _ in range(12):
        tab.keyboard.press("Tab")
        if "Release" in str(tab.evaluate("document.activeElement.textContent")):
            break
    tab.keyboard.press("Enter")
    tab.get_by_role("heading", name="Release this job?").wait_for()
    tab.get_by_label("Reason").focus()
    tab.keyboard.type("she called")
    tab.keyboard.press("Enter")
    tab.get_by_role("status").filter(has_text="It is ordered").wait_for()


@pytest.mark.parametrize("verb", ["Hold", "Run now", "Cancel"])
def test_an_order_to_a_job_is_asked_for_once_more(eyes: Eyes, page: Page, verb: str) -> None:
    tenant = page.stage.tenant()
    tab = eyes.tab
    eyes.log_in(page.token(operator=True, of=tenant))
    eyes.open("/jobs?status=pending")
    tab.get_by_role("link", name=f"{verb} job {tenant.pending[:8]}").click()
    tab.get_by_role("heading", name=f"{verb} this job?").wait_for()
    tab.get_by_role("link", name="Back, change nothing").click()
    tab.get_by_role("link", name=f"{verb} job {tenant.pending[:8]}").click()
    tab.get_by_label("Reason").fill("looked at")
    tab.get_by_role("button", name=verb, exact=True).click()
    tab.get_by_role("status").filter(has_text="It is ordered").wait_for()


def test_a_shadow_is_told_with_examples_that_lead_to_their_story(
    eyes: Eyes, page: Page, shadow: Tenant
) -> None:
    tab = eyes.tab
    eyes.log_in(page.token())
    eyes.open("/windows")
    tab.get_by_role("link", name="what a shadow decides").click()
    tab.get_by_role("heading", name="Shadow", exact=True).wait_for()
    found = tab.get_by_role("table", name="What was found, by kind")
    assert found.get_by_role("row", name=WORDS["only_ours"].title).get_by_text("different").count() == 1
    tab.get_by_role("link", name="The last 24 hours").click()
    tab.get_by_role("link", name="The last hour").wait_for()
    tab.get_by_role("heading", name=WORDS["only_ours"].title).wait_for()
    tab.get_by_role("link", name=shadow.event_id[:8]).click()
    tab.get_by_role("heading", name=re.compile(f"Event {shadow.event_id}")).wait_for()


def test_a_shadow_tells_an_organization_of_itself_alone(
    eyes: Eyes, page: Page, shadow: Tenant, bia: Tenant
) -> None:
    eyes.log_in(page.token(of=bia))
    eyes.open("/shadow")
    eyes.tab.get_by_text("The shadow has decided nothing in this time.").wait_for()
    assert shadow.event_id[:8] not in eyes.tab.content()


def test_a_reader_is_offered_nothing_to_do(eyes: Eyes, page: Page, bia: Tenant) -> None:
    eyes.log_in(page.token(of=bia))
    for path in ("/jobs", "/alerts", "/letters", f"/letters/{bia.place}"):
        eyes.open(path)
        assert eyes.tab.locator("main form[method=post], main .button").count() == 0, path


def test_letters_are_requeued_and_dropped_after_a_question(eyes: Eyes, page: Page) -> None:
    first, second = page.stage.tenant(), page.stage.tenant()
    tab = eyes.tab
    eyes.log_in(page.token(operator=True))
    for tenant, verb, told in ((first, "Requeue", "is sent again"), (second, "Drop", "is given up")):
        eyes.open("/letters")
        tab.get_by_role("link", name=tenant.place, exact=True).click()
        tab.get_by_role("link", name=verb).click()
        tab.get_by_role("heading", name=f"{verb} this letter?").wait_for()
        tab.get_by_role("link", name="Back, change nothing").click()
        tab.get_by_role("link", name=verb).click()
        tab.get_by_label("Reason").fill("looked at")
        tab.get_by_role("button", name=verb).click()
        tab.get_by_text(told).wait_for()


def test_hostile_texts_do_nothing(eyes: Eyes, page: Page, ana: Tenant) -> None:
    eyes.log_in(page.token(operator=True, phones=True))
    ids = (ana.event_id, ana.held, ana.patient.contact_id)
    for path in [
        *PATHS,
        f"/letters/{ana.place}",
        f"/letters/{ana.place}/drop",
        *(f"/search?q={one}" for one in ids),
    ]:
        eyes.open(path)
        eyes.tab.wait_for_timeout(100)
        assert "owned" not in eyes.tab.title(), path
        assert eyes.tab.locator("main img, main script").count() == 0, path


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        ("wide", "dark"),
        ("phone", "light"),
        pytest.param("wide", "light", marks=pytest.mark.long),
        pytest.param("phone", "dark", marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("shadow")
def test_each_page_is_readable(chromium: Browser, page: Page, bia: Tenant, scheme: str, size: str) -> None:
    width, height = SIZES[size]
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]  # one of two
    eyes = Eyes(context, page)
    eyes.open("/login")
    eyes.shot(f"login-{size}-{scheme}")
    assert eyes.wrong("contrast") == []
    eyes.log_in(page.token(operator=True, phones=True))
    more = [
        *(f"/letters/{bia.place}", f"/letters/{bia.place}/drop", f"/jobs/{bia.held}/cancel"),
        *(f"/search?q={one}" for one in (bia.event_id, bia.held, uuid4())),
        *("/shadow", f"/search?q={bia.patient.contact_id}", "/nowhere"),
    ]
    for index, path in enumerate([*PATHS, *more]):
        eyes.open(path)
        eyes.tab.wait_for_timeout(300)
        name = re.sub(r"\W+", "-", path.partition("?")[0]).strip("-") or "overview"
        eyes.shot(f"{index:02d}-{name.split('-')[0]}-{size}-{scheme}")
        assert eyes.wrong("contrast", "unnamed", "accessible") == [], path
        wide = eyes.tab.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, f"{path} is {wide} px wider than the screen"
    context.close()
    not_there = "404 (Not Found)"  # the browser's own line about the page that there is none of
    assert not [one for one in eyes.complaints if not_there not in one] and not eyes.elsewhere


def test_without_javascript_everything_is_there(chromium: Browser, page: Page, bia: Tenant) -> None:
    context = chromium.new_context(java_script_enabled=False)
    eyes = Eyes(context, page)
    eyes.log_in(page.token(operator=True))
    for path, wanted in (("/jobs", bia.held), ("/alerts", bia.alert), ("/letters", bia.place)):
        eyes.open(path)
        assert wanted in eyes.tab.content()
    context.close()
