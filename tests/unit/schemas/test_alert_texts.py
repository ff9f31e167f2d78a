"""Alerts say first what a person did not get and what to do, in every language, and name no person."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import alert_texts
from schemas.alert_catalogue import FAMILIES, WORDS, as_markdown
from schemas.alert_texts import LONGEST_REASON, title, titles
from schemas.kinds import GROUP_LINK, INBOUND_TURN
from schemas.records import Alert, EventRef, Job
from settings import Language, Settings

LANGUAGES: tuple[Language, ...] = get_args(Language)
EVENT = "0dbb2fb3-5db2-4391-bbd8-123456789012"
JOB_ID = "9d0f7a52-0c5e-5a3b-8a6a-0c2f6a1c9b11"


def job(kind: str = INBOUND_TURN) -> Job:
    return Job(
        id=JOB_ID, organization_id="o", contact_id="c0ffee00-0000-4000-8000-000000000001", kind=kind,
        source_event_id=EVENT, seq=9, attempt=5, created_at_ms=1, run_after_ms=2,
        payload='{"phone":"+5511987654321"}', events=(EventRef(EVENT),),
    )  # fmt: skip


def every(error: str | None, language: Language) -> dict[str, Alert]:
    """One alert of each family."""
    return {
        "event_dead": alert_texts.event_dead(
            "ai_agent.dispatch_requested", "contact_missing", 5, EVENT, error, language
        ),
        "group_link_event_dead": alert_texts.event_dead(
            "group_link.dispatch_requested", "record_too_large", 0, EVENT, error, language
        ),
        "event_unreadable": alert_texts.event_unreadable("not_json", "t [0] offset 123456", error, language),
        "job_dead": alert_texts.job_dead(job(), error, language),
        "group_link_dead": alert_texts.job_dead(job(GROUP_LINK), error, language),
        "other_job_dead": alert_texts.job_dead(job("something_new"), error, language),
        "job_unknown_outcome": alert_texts.job_unknown_outcome(job(GROUP_LINK), language),
        "out_of_credit": alert_texts.out_of_credit(job(), language),
        "credentials_missing": alert_texts.credentials_missing(job(GROUP_LINK), language),
        "session_not_working": alert_texts.session_not_working(job(), EVENT, language),
        "drain_stopped": alert_texts.drain_stopped(EVENT, 12, 3, language, about="job"),
        "clock_skew": alert_texts.clock_skew(-1500, language),
        "sweep_held": alert_texts.sweep_held(error or "", language),
        "delays_late": alert_texts.delays_late(812, language),
        "database_away": alert_texts.database_away(31, error, language),
        "slot_lost": alert_texts.slot_lost("rajada", language),
        "slot_lagging": alert_texts.slot_lagging("rajada", 4096, language),
        "publisher_silent": alert_texts.publisher_silent("rajada_dispatch", 3, language),
        "publisher_gap": alert_texts.publisher_gap("rajada", "2026-01-01 10:00", language),
        "dead_letters_large": alert_texts.dead_letters_large("dispatch.dead", 12_000, language),
        "outcome_dead": alert_texts.outcome_dead("bad_avro", "t [0] offset 1", error, language),
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_family_has_its_words_in_every_language(language: Language) -> None:
    told = every("HTTP 404", language)
    assert told.keys() == FAMILIES.keys()
    for family, alert in told.items():
        assert (alert.kind, alert.title) == (FAMILIES[family].kind, title(family, language))
        first, _, last = alert.body.partition("\n\n")
        assert first and last.startswith(WORDS[language]["detail"] + ": ")
        assert "{" not in alert.body, "every word got its value"
        assert "\n" not in first and "\n" not in last
    assert all(family.texts.keys() == set(LANGUAGES) for family in FAMILIES.values())
    assert all(family.opens and family.closes for family in FAMILIES.values()), "say when, for docs/alerts.md"
    assert WORDS["pt-BR"].keys() == WORDS["en"].keys()


def test_no_two_families_share_a_title() -> None:
    every_title = [one for family in FAMILIES for one in titles(family)]
    assert len(every_title) == len(set(every_title))


def test_the_titles_that_a_crm_may_already_look_for() -> None:
    assert title("event_dead") == "A IA deixou de responder uma mensagem de cliente"
    assert title("group_link_event_dead") == "Um link de grupo deixou de ser enviado"
    assert Settings().language == alert_texts.DEFAULT == "pt-BR"


def test_b169_the_death_of_a_job_names_it_and_what_went_wrong_at_most_400_characters() -> None:
    alert = alert_texts.job_dead(job(), "x" * 1_000)
    assert (alert.kind, alert.ref_kind, alert.ref_id) == ("job_dead", "job", JOB_ID)
    assert f"inbound_turn, tentativas: 5, tarefa {JOB_ID}, evento {EVENT}. " in alert.body
    assert alert.body.count("x") == LONGEST_REASON == 400


@pytest.mark.thorough
@given(st.text(max_size=3_000), st.sampled_from(LANGUAGES))
def test_no_error_text_makes_a_body_long_or_tells_a_person(error: str, language: Language) -> None:
    secret = f"{error} +55 11 98765-4321 ana@clinica.com.br"
    for family, alert in every(secret, language).items():
        assert "98765" not in alert.body and "ana@" not in alert.body, family
        assert len(alert.body) <= 1_100, family


def test_where_another_copy_may_be_answered_the_text_says_perhaps() -> None:
    alert = alert_texts.event_dead(
        "ai_agent.dispatch_requested", "key_mismatch", 0, EVENT, "m", place="t [1] offset 9876543210",
        certain=False,
    )  # fmt: skip
    assert "pode não ter recebido" in alert.body
    assert alert.body.endswith(f"evento {EVENT}, t [1] offset 9876543210. m")


def test_nothing_of_the_payload_is_told() -> None:
    for alert in every(None, "pt-BR").values():
        assert "98765" not in alert.body and "c0ffee00" not in alert.body


def test_the_page_of_alerts_shows_this_catalogue() -> None:
    page = (Path(__file__).parents[3] / "docs/alerts.md").read_text()
    assert as_markdown() in page, "print the table anew: python -m schemas.alert_catalogue"
