"""What operators do on the live page, and what stands in the audit of it."""

from __future__ import annotations

from confluent_kafka import Consumer

from schemas.codec import decode_command
from schemas.topic_names import CONTROL, SOURCE
from tests.live_page import Page


def orders_of(page: Page, topic: str = CONTROL) -> list[bytes]:
    """The values in a topic, all of them."""
    settings = page.stage.settings
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap(), "group.id": "x", "auto.offset.reset": "earliest",
            "enable.partition.eof": True, "enable.auto.commit": False,
        }
    )  # fmt: skip
    found: list[bytes] = []
    consumer.subscribe([settings.topic(topic)])
    left = 2
    while left:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            left -= 1
        elif isinstance(value := message.value(), bytes):
            found.append(value)
    consumer.close()
    return found


def test_an_order_is_asked_for_once_more_and_written_once(page: Page) -> None:
    tenant = page.stage.tenant()
    token = page.token(operator=True, of=tenant)
    browser = page.browser(token)
    path = f"/live/jobs/{tenant.held}/release"
    asked = browser.get(path)
    assert asked.status_code == 200 and "Release this job?" in asked.text and tenant.held in asked.text
    done = browser.post(path, reason="customer called")
    assert done.status_code == 200 and "It is ordered" in done.text
    row = page.stage.connection.execute(
        "SELECT action, reason, ordered_by FROM rajada.orders WHERE job_id = %s", [tenant.held]
    ).fetchone()
    assert row == ("release", "customer called", f"page:{token.split('_')[1]}")
    written = [decode_command(value) for value in orders_of(page)]
    assert [(one.action, one.issued_by) for one in written if one.job_id == tenant.held] == [(row[0], row[2])]
    assert "customer called" in browser.get(f"/live/search?q={tenant.held}").text


def test_an_order_without_meaning_is_refused(page: Page) -> None:
    tenant = page.stage.tenant()
    page.stage.connection.execute("UPDATE job_queue SET status = 'done' WHERE id = %s", [tenant.held])
    browser = page.browser(page.token(operator=True))
    answer = browser.post(f"/live/jobs/{tenant.held}/cancel")
    assert answer.status_code == 409 and "it is done" in answer.text
    assert browser.post(f"/live/jobs/{tenant.pending}/cancel", order="x").status_code == 409
    assert browser.get(f"/live/jobs/{tenant.event_id}/cancel").status_code == 404
    assert browser.get(f"/live/jobs/{tenant.held}/explode").status_code == 404


def test_an_alert_is_acknowledged_then_resolved(page: Page) -> None:
    tenant = page.stage.tenant()
    browser = page.browser(page.token(operator=True, of=tenant))

    def status() -> object:
        asked = "SELECT status FROM agent_inbox_items WHERE id = %s"
        row = page.stage.connection.execute(asked, [tenant.alert]).fetchone()
        return row and row[0]

    for wanted in ("ack", "resolved"):
        answer = browser.post(f"/live/alerts/{tenant.alert}", form_of="/live/alerts", status=wanted)
        assert answer.status_code == 303 and status() == wanted
    assert tenant.alert not in browser.get("/live/alerts").text
    assert tenant.alert in browser.get("/live/alerts?all=1").text
    wrong = browser.post(f"/live/alerts/{tenant.alert}", form_of="/live", status="open")
    assert wrong.status_code == 404 and status() == "resolved"


def test_a_letter_is_requeued_once(page: Page) -> None:
    tenant = page.stage.tenant()
    token = page.token(operator=True, of=tenant)
    browser, path = page.browser(token), f"/live/letters/{tenant.place}/requeue"
    assert "1 back to ai_agent.dispatch_requested" in browser.get(path).text
    before = len(orders_of(page, SOURCE))
    done = browser.post(path, reason="the contact is there now")
    assert done.status_code == 200 and "is sent again" in done.text, done.text
    again = browser.post(path, reason="")
    assert again.status_code == 409 and "settled before" in again.text
    assert len(orders_of(page, SOURCE)) == before + 1
    row = page.stage.connection.execute(
        "SELECT how, closed_by FROM rajada.closed_letters WHERE about = %s", [tenant.died]
    ).fetchone()
    assert row == ("requeued", f"page:{token.split('_')[1]}")
    letter = browser.get(f"/live/letters/{tenant.place}").text
    assert "requeued" in letter and "/requeue" not in letter


def test_a_letter_is_dropped_with_a_reason(page: Page) -> None:
    tenant = page.stage.tenant()
    browser, path = page.browser(page.token(operator=True)), f"/live/letters/{tenant.place}/drop"
    refused = browser.post(path, reason="  ")
    assert refused.status_code == 409 and "Say why" in refused.text
    done = browser.post(path, reason="a test of last year")
    assert done.status_code == 200 and "given up" in done.text, done.text
    row = page.stage.connection.execute(
        "SELECT reason, dropped_by LIKE 'page:%%' FROM rajada.dropped WHERE id = %s", [tenant.died]
    ).fetchone()
    assert row == ("a test of last year", True)
    assert tenant.place not in browser.get("/live/letters").text
    assert tenant.place in browser.get("/live/letters?closed=1").text
