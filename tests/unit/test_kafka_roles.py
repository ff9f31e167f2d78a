"""The access lists: complete, no wider than their roles, and the same in all their forms."""

from __future__ import annotations

from pathlib import Path

import pytest

import sinks.outcomes
import streams.delays.process
from ops.kafka_roles import (
    ASKED_FOR,
    DELAYS,
    RIGHTS,
    ROLES,
    Entry,
    NoSuchRole,
    commands,
    entries,
    table,
)
from schemas.topic_names import DELAYS_GROUP, SINK_GROUP
from settings import Settings
from streams.topics import TOPICS

INSTALLED = Settings(_env_file=None, topic_prefix="acme.")


def may(role: str, operation: str) -> set[str]:
    return {right.name for right in RIGHTS[role] if right.kind == "topic" and operation in right.operations}


def test_every_role_has_a_list_and_no_other_name_has_one() -> None:
    assert set(RIGHTS) == {*ROLES, *ASKED_FOR}
    with pytest.raises(NoSuchRole, match="relay, worker"):
        entries("admin", "User:a", INSTALLED)


def test_the_groups_are_those_of_the_processes() -> None:
    assert sinks.outcomes.GROUP == SINK_GROUP
    assert streams.delays.process.GROUP == DELAYS_GROUP


def test_the_operator_reaches_every_topic_that_is_made_and_the_others_see_them() -> None:
    named = {DELAYS if topic.name.startswith(DELAYS) else topic.name for topic in TOPICS}
    assert may("operator", "Create") == named
    for role in set(ROLES) - {"operator", "web"}:
        assert may(role, "Describe") == named, role


def test_a_shadow_writes_and_joins_nothing_but_what_is_its_own() -> None:
    assert may("shadow", "Write") == may("shadow", "Create") == {"shadow."}
    assert may("shadow", "Read") == {"shadow.", "ai_agent.dispatch_requested"}
    found = entries("shadow", "User:s", INSTALLED)
    assert Entry("User:s", "topic", "acme.shadow.", True, "Write") in found
    assert Entry("User:s", "group", "acme.shadow.", True, "Read") in found


def test_only_the_operator_makes_and_erases() -> None:
    for role in set(ROLES) - {"operator"}:
        assert not may(role, "Create") | may(role, "Delete") | may(role, "AlterConfigs"), role


def test_who_may_write_what_makes_jobs() -> None:
    assert {role for role in ROLES if "dispatch.jobs" in may(role, "Write")} == {
        "worker",
        "delays",
        "web",
        "operator",
    }
    assert {role for role in ROLES if "dispatch.outcomes" in may(role, "Read")} == {"sink", "operator"}
    assert "dispatch.dead" in may("web", "Read") and "dispatch.dead" not in may("web", "Write")
    assert may("reconciler", "Write") == {"conect-whatsapp-reconciliation-queue"}


def test_entries_have_the_installations_prefix_but_where_a_name_has_none() -> None:
    found = entries("operator", "User:o", INSTALLED)
    assert Entry("User:o", "topic", "acme.dispatch.delay.", True, "Write") in found
    assert Entry("User:o", "transactional-id", "rajada-produce-", True, "Write") in found
    assert len(found) == len(set(found))


def test_a_command_names_each_resource_once_with_all_that_is_allowed() -> None:
    found = entries("delays", "User:CN=delays,O=acme", INSTALLED)
    lines = commands(found, "k:1")
    assert len(lines) == len({(one.kind, one.name) for one in found})
    (clock,) = [line for line in lines if "dispatch.clock" in line]
    assert clock == (
        "kafka-acls.sh --bootstrap-server k:1 --command-config admin.properties --add --allow-principal "
        "User:CN=delays,O=acme --operation Describe --operation Write --topic acme.dispatch.clock"
    )
    assert [line for line in lines if line.endswith("acme.dispatch.delay. --resource-pattern-type prefixed")]


def test_the_page_shows_the_lists_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "access.md").read_text("utf-8")
    shown = page.partition("table() -->\n")[2].partition("<!-- end -->")[0]
    assert shown == table(), "put what ops.kafka_roles.table() gives into docs/access.md"
