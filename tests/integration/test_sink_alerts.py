"""The sink's alerts on a real Postgres: one open item each, and never a reason to stop."""

from __future__ import annotations

import uuid

from schemas.records import Alert
from tests.integration.sink_lab import Lab


def dead(lab: Lab, **changed: object) -> object:
    alert = Alert(kind="event_dead", title="t", body="b")
    return lab.outcome(str(uuid.uuid4()), status="dead", alert=alert, **changed)


def inbox(lab: Lab) -> list[tuple[object, ...]]:
    return lab.execute(
        "SELECT title, status, occurrences FROM agent_inbox_items ORDER BY title, status, occurrences"
    )


def test_a_thousand_deaths_are_one_open_alert_with_a_count(lab: Lab) -> None:
    lab.spread(dead(lab) for _ in range(1000))
    with lab.sink():
        lab.until_caught_up()
    assert inbox(lab) == [("t", "open", 1000)]
    assert lab.value("SELECT last_seen_at >= created_at FROM agent_inbox_items")


def test_the_newest_open_alert_counts_and_acknowledged_resolved_or_other_titles_do_not(lab: Lab) -> None:
    for title, state, age in (("t", "ack", 1), ("t", "resolved", 1), ("u", "open", 1), ("t", "open", 9)):
        lab.execute(
            "INSERT INTO agent_inbox_items (organization_id, kind, title, status, created_at)"
            " VALUES (%s, 'event_dead', %s, %s, now() - %s * interval '1 hour')",
            lab.organization, title, state, age,
        )  # fmt: skip
    lab.execute(
        "INSERT INTO agent_inbox_items (organization_id, kind, title, status, occurrences)"
        " VALUES (%s, 'event_dead', 't', 'open', 5)", lab.organization,
    )  # fmt: skip
    with lab.sink():
        lab.send(dead(lab), dead(lab))
        lab.until_caught_up()
    assert inbox(lab) == [
        ("t", "ack", 1), ("t", "open", 1), ("t", "open", 7), ("t", "resolved", 1), ("u", "open", 1),
    ]  # fmt: skip


def test_an_index_of_the_crms_own_counts_as_already_open(lab: Lab) -> None:
    lab.execute(
        "CREATE UNIQUE INDEX theirs ON agent_inbox_items (organization_id, kind) WHERE status = 'open'"
    )
    lab.execute(
        "INSERT INTO agent_inbox_items (organization_id, kind, title) VALUES (%s, 'event_dead', 'u')",
        lab.organization,
    )
    with lab.sink():
        lab.send(dead(lab))
        lab.until_caught_up()
    assert inbox(lab) == [("u", "open", 1)]


def test_failing_to_alert_does_not_stop_the_sink(lab: Lab) -> None:
    lab.execute("ALTER TABLE agent_inbox_items ADD CONSTRAINT no CHECK (title <> 't')")
    event = lab.event()
    with lab.sink():
        alert = Alert(kind="event_dead", title="t", body="b")
        lab.send(lab.outcome(event, status="dead", outcome=None, alert=alert))
        lab.until_caught_up()
    assert lab.row(event)["status"] == "dead"
    assert inbox(lab) == []
    assert lab.dead_letters() == []


def test_an_alert_of_an_unknown_organization_is_shown_to_the_platform(lab: Lab) -> None:
    with lab.sink():
        lab.send(dead(lab, organization_id=str(uuid.uuid4())), dead(lab, organization_id=""))
        lab.until_caught_up()
    assert lab.execute("SELECT organization_id, occurrences FROM agent_inbox_items") == [(None, 2)]
