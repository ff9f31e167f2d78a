"""Which statements may look at rows of every organization, and why: all others name the organization."""

from __future__ import annotations

import re

import pytest

from db.queries import load, names

ROWS = re.compile(
    r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(?:ONLY\s+)?(?:public\.)?(contacts|conversations|messages|event_log|job_queue|"
    r"group_link_dispatch_queue|agent_inbox_items|channel_sessions|ai_agents|ai_agent_versions)\b",
    re.I,
)
WITHOUT = {
    "alerts_counts": "a number over the installation, for its metrics",
    "events_done": "by ids that the worker itself made or read; yields ids alone",
    "foreign_consumers": "who else works here at all, for the doctor and the sweep; yields counts and names",
    "forget_counts": "by a contact's own id, for the operator's command",
    "group_links_ended": "by ids of jobs that the worker holds; yields ids alone",
    "jobs_ended": "by ids of jobs that the worker holds; yields ids alone",
    "page_events": "by ids that were filtered by organization before (web/pages)",
    "relay_backfill_page": "the relay publishes everybody's",
    "sessions_not_working": "by ids of sessions of jobs that the worker holds; yields ids alone",
    "shadow_events": "by ids of windows that were filtered by organization before (ops/shadow)",
    "shadow_jobs": "by contacts of windows that were filtered by organization before (ops/shadow)",
    "sink_jobs_behind": "by ids of jobs of outcomes, whose rows were written with their organization",
    "sink_jobs_moved": "by ids of jobs of outcomes, whose rows were written with their organization",
    "why_events_of_contact": "the story is looked through for its organization before it is shown",
    "why_events_of_job": "the story is looked through for its organization before it is shown",
    "why_kinds": "the story is looked through for its organization before it is shown",
}


def statement(name: str) -> str:
    return re.sub(r"--[^\n]*", "", load(name))


@pytest.mark.parametrize("name", names())
def test_every_statement_on_a_tenants_rows_names_the_organization_or_says_why_not(name: str) -> None:
    text = statement(name)
    named = "organization_id" in text
    if ROWS.search(text) and not named:
        assert name in WITHOUT, f"{name} looks at rows of all organizations: name it, or say why"


def test_no_reason_outlives_its_statement() -> None:
    stale = [
        name
        for name in WITHOUT
        if name not in names() or not ROWS.search(statement(name)) or "organization_id" in statement(name)
    ]
    assert stale == []
