"""What a report counts and shows, and that every finding has words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from ops.pages.shadow import told
from ops.shadow.compare import DIFFERENCES, JOB, SAME, Finding, Kind, NotComparable
from ops.shadow.ours import outcomes_of, shadow_of
from ops.shadow.report import EXAMPLES, Report, counted
from ops.shadow.words import KINDS, NOT_COMPARABLE, as_markdown
from settings import Settings
from streams.topics import SHADOW_TOPICS, source_topic
from tests.unit.shadow.test_compare import window

PAGE = Path(__file__).parents[3] / "docs" / "shadow.md"


def finding(kind: Kind | None, because: NotComparable | None = None, at_ms: int = 1) -> Finding:
    return Finding(replace(window(), decided_ms=at_ms), kind, because, ("j",), "2 jobs")


def test_every_kind_and_reason_has_words_and_a_place() -> None:
    assert set(KINDS) == set(get_args(Kind)) == {*SAME, *DIFFERENCES}
    assert set(NOT_COMPARABLE) == set(get_args(NotComparable))
    assert all(KINDS[kind].look for kind in DIFFERENCES)


def test_the_page_shows_the_tables_as_the_code_has_them() -> None:
    assert as_markdown() in PAGE.read_text()


def test_a_report_counts_each_window_once_and_shows_the_newest_examples() -> None:
    findings = [finding("same_job")] * 3 + [finding(None, "their_job_ran")]
    findings += [finding("split", at_ms=n) for n in range(9)]
    made = counted(Report(since_ms=0, until_ms=9), findings)
    assert (made.windows, made.events, made.differs) == (13, 26, True)
    assert made.same == {"same_job": 3} and made.differences == {"split": 9}
    assert made.not_comparable == {"their_job_ran": 1} and made.by_reason["split"] == {JOB: 9}
    assert [one.at_ms for one in made.examples["split"]] == [8, 7, 6, 5, 4] and EXAMPLES == 5
    assert "same_job" not in made.examples, "what agrees needs none"
    assert not counted(Report(since_ms=0, until_ms=9), findings[:4]).differs


def test_the_page_tells_an_organization_nothing_of_the_platform() -> None:
    made = counted(Report(since_ms=0, until_ms=9, behind=7), [finding("split")])
    assert told(made, None).behind == 7 and told(made, "o").behind is None
    (shown,) = told(made, "o").found
    assert (shown.group, shown.name, shown.count) == ("different", "split", 1)
    assert shown.examples[0].theirs == "2 jobs"


@pytest.mark.parametrize("prefix", ["", "acme."])
@pytest.mark.parametrize("shadow", [False, True])
def test_a_shadow_names_nothing_that_is_not_its_own_but_the_events(prefix: str, shadow: bool) -> None:
    settings = Settings(_env_file=None, topic_prefix=prefix, shadow=shadow)  # type: ignore[call-arg]
    assert source_topic(settings) == f"{prefix}ai_agent.dispatch_requested"
    assert outcomes_of(settings) == f"{prefix}shadow.dispatch.outcomes", "whoever asks"
    for topic in SHADOW_TOPICS:
        assert shadow_of(settings).topic(topic.name).startswith(f"{prefix}shadow.")
