"""What the live page shows to whom: all of it, and of one organization nothing of another's."""

from __future__ import annotations

import json
import re

import pytest

from tests.live_page import HOSTILE, Browser, Page, Tenant, eventually
from web.pages import shown

LISTS = [
    *("/live", "/live/jobs", "/live/jobs?status=held", "/live/alerts", "/live/alerts?all=1"),
    *("/live/windows", "/live/delays", "/live/instances"),
    *("/live/letters", "/live/letters?closed=1", "/live/letters?parking=1"),
]


def stories(tenant: Tenant) -> list[str]:
    ids = [tenant.event_id, tenant.message_id, tenant.patient.contact_id, tenant.pending, tenant.held]
    return [f"/live/search?q={one}" for one in ids]


def followed(browser: Browser, path: str) -> str:
    """The first regions that a page's stream tells."""
    with browser.client.stream("GET", f"/live/stream{path}") as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: "):
                return "".join(json.loads(line.removeprefix("data: ")).values())
    raise AssertionError("nothing was told")


def ready(browser: Browser, tenant: Tenant) -> None:
    """Wait until Kafka was read so far."""

    def look() -> None:
        assert tenant.patient.contact_id[:8] in browser.get("/live/windows").text
        assert tenant.event_id[:8] in browser.get("/live").text

    eventually(look)


def test_who_sees_all_sees_each(page: Page, ana: Tenant, bia: Tenant) -> None:
    browser = page.browser(page.token(phones=True))
    ready(browser, ana)
    ready(browser, bia)
    for tenant in (ana, bia):
        for path, wanted in [
            ("/live", tenant.event_id), ("/live", tenant.phone), ("/live/jobs", tenant.pending),
            ("/live/jobs?status=held", tenant.held), ("/live/alerts", tenant.alert),
            ("/live/windows", tenant.patient.contact_id), ("/live/windows", tenant.held),
            ("/live/delays", tenant.pending), ("/live/instances", tenant.instance),
            ("/live/letters", tenant.place), (f"/live/letters/{tenant.place}", tenant.died),
        ]:  # fmt: skip
            answer = browser.get(path)
            assert answer.status_code == 200 and wanted in answer.text, (path, wanted)
        for path in stories(tenant):
            assert tenant.clinic.organization_id in browser.get(path).text, path


def test_nobody_sees_anything_of_another_organization(page: Page, ana: Tenant, bia: Tenant) -> None:
    everybody = page.browser(page.token())
    ready(everybody, ana)
    for own, other in ((ana, bia), (bia, ana)):
        browser = page.browser(page.token(operator=True, phones=True, of=own))
        ready(browser, own)
        pages = {path: browser.get(path) for path in [*LISTS, *stories(own), f"/live/letters/{own.place}"]}
        assert all(answer.status_code == 200 for answer in pages.values())
        texts = {path: answer.text for path, answer in pages.items()}
        texts |= {f"stream{path}": followed(browser, path) for path in shown.LIVE}
        for path, text in texts.items():
            told = [secret for secret in other.secrets if secret in text]
            assert not told, (path, told)
        assert own.event_id in texts["/live"] and own.held in texts["/live/windows"]
        for word in ("Consumer lag", "CDC slots", "Reconciler", "rajada-dispatch"):
            assert word not in texts["/live"] + texts["stream"]


def test_what_is_another_organizations_is_not_there(page: Page, ana: Tenant, bia: Tenant) -> None:
    browser = page.browser(page.token(operator=True, phones=True, of=ana))
    for path in stories(bia):
        answer = browser.get(path)
        asked = path.rpartition("=")[2]
        assert "Nothing is known" in answer.text, path
        assert not [one for one in bia.secrets if one in answer.text and one not in asked], path
    for path in (
        f"/live/letters/{bia.place}",
        f"/live/letters/{bia.place}/drop",
        f"/live/jobs/{bia.held}/cancel",
    ):
        answer = browser.get(path)
        assert answer.status_code == 404 and bia.died not in answer.text, path
    for path, fields in [
        (f"/live/letters/{bia.place}/drop", {"reason": "mine"}),
        (f"/live/letters/{bia.place}/requeue", {"reason": ""}),
        (f"/live/jobs/{bia.held}/cancel", {"order": bia.event_id}),
        (f"/live/jobs/{bia.held}/release", {"order": bia.event_id}),
        (f"/live/alerts/{bia.alert}", {"status": "resolved"}),
    ]:
        assert browser.post(path, form_of="/live", **fields).status_code == 404, path
    row = page.stage.connection.execute(
        "SELECT status FROM agent_inbox_items WHERE id = %s", [bia.alert]
    ).fetchone()
    assert row == ("open",)
    orders = page.stage.connection.execute("SELECT count(*) FROM rajada.orders WHERE job_id = %s", [bia.held])
    assert orders.fetchone() == (0,)
    closed = "SELECT count(*) FROM rajada.closed_letters WHERE about = %s"
    assert page.stage.connection.execute(closed, [bia.died]).fetchone() == (0,)


def test_hostile_texts_are_shown_as_texts(page: Page, ana: Tenant) -> None:
    browser = page.browser(page.token(operator=True, phones=True))
    ready(browser, ana)
    for path in [*LISTS, *stories(ana), f"/live/letters/{ana.place}", f"/live/letters/{ana.place}/drop"]:
        text = browser.get(path).text
        assert "<img" not in text and "<script>" not in text, path
        assert len(re.findall("<script", text)) == 1, path
    for path in shown.LIVE:
        assert "<script" not in followed(browser, path) and "<img" not in followed(browser, path)
    alert = browser.get("/live/alerts").text
    assert "&lt;script&gt;" in alert and HOSTILE not in alert
    for typed in (HOSTILE, "'\"--", "%00", "x" * 5_000, "\u202e"):
        answer = browser.client.get("/live/search", params={"q": typed})
        assert answer.status_code == 200 and "<script>" not in answer.text and "<img" not in answer.text
    for path in [
        *("/live/jobs?status=<script>", "/live/letters?reason=<script>", "/live/letters/dead/-1/x"),
        *("/live/letters/dead/99999999999999999999/0", "/live/letters/dead/7/0", "/live/jobs/x/cancel"),
    ]:
        answer = browser.get(path)
        assert answer.status_code in (200, 404) and "<script>" not in answer.text, path


@pytest.mark.parametrize("phones", [False, True])
def test_phones_and_contents_are_for_those_who_may_see_them(page: Page, bia: Tenant, phones: bool) -> None:
    browser = page.browser(page.token(phones=phones))
    ready(browser, bia)
    overview, letter = browser.get("/live").text, browser.get(f"/live/letters/{bia.place}").text
    assert (bia.phone in overview) is phones
    assert (
        "Something is wrong" in letter.partition('id="h-content"')[2].partition('id="h-headers"')[0]
    ) is phones
    assert ("Veiled" in letter) is not phones
