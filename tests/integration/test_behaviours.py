"""Facts about the reference system on a real Postgres: rows in, the real statements, our decision out.

Each row of `tests/cases/behaviours.json` is one pytest id; where we differ on purpose the table says so.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from db.pool import AsyncPool, async_pool
from streams.decide import Decision, Emptied, Enqueue, Fail, LookAgain, Stop, WaitForMedia, decide
from streams.facts import FactReader
from streams.question import Facts, Rules
from tests.integration.clinic_state import DAY_S, State, returns_after
from tests.integration.crm_tables import Connection, crm_database, replace_rows
from tests.integration.memory_facts import facts_in_memory
from tests.unit.builders import uid

TOLD = {
    row["id"]: row
    for row in json.loads((Path(__file__).parents[1] / "cases" / "behaviours.json").read_text("utf-8"))
}
Example = tuple[Callable[[State], State], str]
"""Rows that differ from a clinic in which all is well, and what is decided on them."""

JOB = "a job"
MEDIA = "waits for media"
CLOSED = "org_not_operating"
EXTERNAL = "org_external_dispatch"
GROUP = "group_or_missing_conversation"
NOBODY = "no_published_agent"
SUPERSEDED = "superseded_by_newer_inbound"
YIELDS = "yielded_to_followup"
DISABLED = "not_eligible:channel_disabled"
HUMAN = "not_eligible:force_human"
SILENCED = "not_eligible:conversation_silenced"
OWNED = "not_eligible:human_owner"
NOT_LISTED = "not_eligible:not_on_test_list"
NEVER = "not_eligible:not_authorized"
EXPIRED = "not_eligible:authorization_expired"
MISSING = "contact_missing"


def told_of(*events: str, job: str) -> str:
    """Stop 0 took these events out: they belong to that job."""
    return f"{', '.join(events)} in {job}"


def listed(*numbers: object) -> dict[str, object]:
    """A channel before its go-live: only these numbers are answered."""
    return {"ai_gate": "allowlist", "ai_gate_mode": "pre_go_live", "ai_test_phone_numbers": list(numbers)}


ALLOWLIST = {"ai_gate": "allowlist"}
MODEL_FLOW = {
    "nodes": [{"id": "t", "type": "trigger"}, {"id": "c", "type": "ai_classify"}],
    "edges": [],
}


# fmt: off
ORGANIZATION: dict[str, list[Example]] = {
    "b010": [(lambda s: s.clinic(status="suspended"), CLOSED)],
    "b011": [(lambda s: s.clinic(status="redacted"), CLOSED)],
    "b012": [(lambda s: s.clinic(status="archived"), CLOSED)],
    "b013": [(lambda s: s.clinic(status="frozen"), CLOSED)],
    "b014": [(lambda s: s.clinic(status="ACTIVE"), CLOSED)],
    # we read everything in one round trip, so what counts is that nothing else is needed for the stop
    "b015": [(lambda s: s.clinic(status="suspended").drop("conversations").drop("contacts").drop("ai_agents")
              .drop("messages"), CLOSED)],
    "b016": [(lambda s: s.drop("organizations"), CLOSED),
             (lambda s: s.clinic(status=None), CLOSED)],
    "b017": [(lambda s: s.clinic(settings={"ai_dispatch_mode": "external"}), EXTERNAL)],
    "b018": [(lambda s: s.clinic(settings={"ai_dispatch_mode": "native"}), JOB),
             (lambda s: s.clinic(settings={"ai_dispatch_mode": "External"}), JOB),
             (lambda s: s.clinic(settings={"ai_dispatch_mode": None}), JOB),
             (lambda s: s.clinic(settings=None), JOB),
             (lambda s: s.clinic(settings=["ai_dispatch_mode"]), JOB)],
    "b019": [(lambda s: s.clinic(status="suspended", settings={"ai_dispatch_mode": "external"}), CLOSED)],
    "b020": [(lambda s: s.clinic(status="suspended").agent("a", operation_mode="assisted"), CLOSED)],
}

CONVERSATION: dict[str, list[Example]] = {
    "b021": [(lambda s: s.conversation(is_group=True), GROUP)],
    "b022": [(lambda s: s.conversation(is_group=None), GROUP),
             (lambda s: s.conversation(is_group=False), JOB)],
    "b023": [(lambda s: s.drop("conversations"), GROUP),
             (lambda s: s.conversation(organization_id="other clinic"), GROUP)],
}

CAPACITY: dict[str, list[Example]] = {
    "b024": [(lambda s: s, JOB)],
    "b025": [(lambda s: s.paused("a"), NOBODY)],
    "b026": [(lambda s: s.drop("ai_agents").drop("ai_agent_versions"), NOBODY)],
    "b027": [(lambda s: s.agent("a", archived_at=-60), NOBODY)],
    "b028": [(lambda s: s.agent("a", status="superseded"), NOBODY),
             (lambda s: s.agent("a", status="draft"), NOBODY)],
    "b029": [(lambda s: s.agent("a", paused_at=-60), JOB)],
    "b030": [(lambda s: s.agent("a", session="another session"), NOBODY)],
    "b031": [(lambda s: s.agent("a", organization_id="other clinic"), NOBODY),
             (lambda s: s.put("ai_agent_versions", "version of a", organization_id="other clinic"), NOBODY),
             (lambda s: s.agent("a", organization_id="other clinic")
              .put("ai_agent_versions", "version of a", organization_id="other clinic"), NOBODY)],
}

ROUTERS: dict[str, list[Example]] = {
    "b032": [(lambda s: s.agent("m", session="elsewhere").router("m"), JOB)],
    "b033": [(lambda s: s.paused("m").paused("n", session="elsewhere").router("m", "n"), NOBODY)],
    "b034": [(lambda s: s.paused("m").agent("n", session="elsewhere").router("m", "n"), JOB)],
    "b035": [(lambda s: s.agent("m", session="elsewhere", archived_at=-60).router("m"), NOBODY)],
    "b036": [(lambda s: s.agent("f", session="elsewhere").router(fallback="f"), JOB)],
    "b037": [(lambda s: s.paused("f").router(fallback="f"), NOBODY),
             (lambda s: s.agent("f", archived_at=-60).router(fallback="f"), NOBODY)],
    "b038": [(lambda s: s.paused("m").agent("f", session="elsewhere").router("m", fallback="f"), JOB)],
    "b039": [(lambda s: s.agent("m", session="elsewhere").router("m", is_active=False), NOBODY),
             (lambda s: s.agent("m", session="elsewhere").router("m", channel_session_id="another"), NOBODY),
             (lambda s: s.router(), NOBODY)],
}

LATEST: dict[str, list[Example]] = {
    "b042": [(lambda s: s.message("newer", age_s=5), SUPERSEDED)],
    "b043": [(lambda s: s.message("answer", age_s=5, direction="outbound"), JOB)],
    "b044": [(lambda s: s.message("newer", age_s=5, conversation_id="c2"), JOB)],
    "b045": [(lambda s: s.message("other", age_s=20, sent_at=-1), SUPERSEDED),  # sent time first
             (lambda s: s.message("other", age_s=1, sent_at=-20), JOB),
             (lambda s: s.message("other", age_s=1, sent_at=None), SUPERSEDED),  # else creation time
             # a tie of the sent times: the later created
             (lambda s: s.message("e1", sent_at=-30).message("other", age_s=5, sent_at=-30), SUPERSEDED),
             (lambda s: s.message("e1", sent_at=-30).message("other", age_s=15, sent_at=-30), JOB),
             # a tie of both: the greater id
             (lambda s: s.message(_beside("e1", greater=True), age_s=10), SUPERSEDED),
             (lambda s: s.message(_beside("e1", greater=False), age_s=10), JOB)],
    "b046": [(lambda s: s.event("late", age_s=1, sent_at=-60).asks("late"), SUPERSEDED),
             (lambda s: s.event("late", age_s=1, sent_at=-60), JOB)],
    "b047": [(lambda s: s.drop("messages"), JOB),
             (lambda s: s.drop("messages").message("answer", direction="outbound"), JOB)],
    "b048": [(lambda s: s.drop("messages").message("another"), SUPERSEDED)],
}

GATE: dict[str, list[Example]] = {
    "b050": [(lambda s: s.clinic(status="suspended").channel(disabled=True).contact(force_human=True)
              .conversation(bot_silenced_until=60, assignee_kind="user"), CLOSED)],
    "b051": [(lambda s: s.channel(disabled=True, **ALLOWLIST).contact(force_human=True), DISABLED),
             (lambda s: s.contact(force_human=True).conversation(bot_silenced_until=60), HUMAN),
             (lambda s: s.conversation(bot_silenced_until=60, assignee_kind="user"), SILENCED),
             (lambda s: s.conversation(assignee_kind="user").channel(**ALLOWLIST), OWNED)],
    "b052": [(lambda s: s.channel(disabled=True), DISABLED),
             (lambda s: s.channel(disabled=True, ai_gate="open"), DISABLED),
             (lambda s: s.channel(disabled="true"), JOB),
             (lambda s: s.channel(disabled=1), JOB)],
    "b053": [(lambda s: s.contact(force_human=True), HUMAN),
             (lambda s: s.contact(force_human=True, ai_authorized_at=-60).channel(**ALLOWLIST), HUMAN)],
    "b054": [(lambda s: s.conversation(bot_silenced_until=60), SILENCED),
             (lambda s: s.conversation(bot_silenced_until=-1), JOB),
             (lambda s: s.conversation(bot_silenced_until=math.inf), SILENCED)],
    "b055": [(lambda s: s.conversation(assignee_kind="user"), OWNED),
             (lambda s: s.conversation(assignee_kind="ai"), JOB),
             (lambda s: s.conversation(assignee_kind=None), JOB)],
    "b056": [(lambda s: s.channel(ai_gate=None), JOB),
             (lambda s: s.channel(ai_gate="open"), JOB),
             (lambda s: s.channel(ai_gate="ALLOWLIST"), JOB),
             (lambda s: s.channel(ai_gate=7), JOB),
             (lambda s: s.put("channel_sessions", "session", metadata=None), JOB)],
    "b057": [(lambda s: s.channel(**ALLOWLIST), NEVER)],
    # that an equal age passes is shown where the clock stands still (unit tests)
    "b058": [(lambda s: s.channel(**ALLOWLIST).contact(ai_authorized_at=60 - 21 * DAY_S), JOB),
             (lambda s: s.channel(**ALLOWLIST).contact(ai_authorized_at=-60 - 21 * DAY_S), EXPIRED)],
    "b059": [(lambda s: s.channel(**ALLOWLIST).contact(ai_authorized_at=30 * DAY_S), JOB)],
    "b060": [(lambda s: s.channel(**ALLOWLIST).contact(ai_authorized_at=math.inf), NEVER),
             (lambda s: s.channel(**ALLOWLIST).contact(ai_authorized_at=-math.inf), NEVER)],
    "b062": [(lambda s: s.channel(**listed("+5511987654321")), JOB),
             (lambda s: s.channel(**listed("+551187654321")), JOB),
             (lambda s: s.channel(**listed("+5511987654321")).contact(phone_number="+551187654321"), JOB)],
    "b063": [(lambda s: s.channel(**listed("+5511900000000")).contact(ai_authorized_at=-60), NOT_LISTED)],
    "b064": [(lambda s: s.channel(**listed("+5511987654321")).contact(phone_number=None), NOT_LISTED)],
    "b065": [(lambda s: s.channel(**listed("+5511987654321")).contact(force_human=True), HUMAN)],
    "b066": [(lambda s: s.channel(ai_gate_mode="pre_go_live", ai_test_phone_numbers=[]), JOB)],
    "b067": [(lambda s: s.conversation(contact_id="gone", bot_silenced_until=60), JOB),
             (lambda s: s.conversation(channel_session_id="gone", assignee_kind="user"), JOB)],
    "b068": [(lambda s: s.put("contacts", "bia", force_human=True).conversation(contact_id="bia"), HUMAN),
             (lambda s: s.contact(force_human=True).put("contacts", "b").conversation(contact_id="b"), JOB)],
    "b070": [(lambda s: _vetoed(s).agent("a", operation_mode="assisted"), JOB),
             (lambda s: _vetoed(s).agent("m", session="x", operation_mode="assisted").router("m"), JOB),
             (lambda s: _vetoed(s).agent("f", session="x", operation_mode="assisted").router(fallback="f"),
              JOB),
             (lambda s: _vetoed(s), DISABLED)],
    "b071": [(lambda s: _vetoed(s).agent("b", operation_mode="assisted", archived_at=-60), DISABLED)],
}

UNREAD: dict[str, list[Example]] = {
    "b072": [(lambda s: s.media(type="audio"), MEDIA), (lambda s: s.media(type="image"), MEDIA),
             (lambda s: s.media(type="document"), MEDIA), (lambda s: s.media(type="video"), MEDIA)],
    "b073": [(lambda s: s.media(type="sticker"), JOB), (lambda s: s.media(type="location"), JOB),
             (lambda s: s.media(type="contact"), JOB)],
    "b074": [(lambda s: s.media(media_derived_status="ready"), JOB),
             (lambda s: s.media(media_derived_status="failed"), JOB),
             (lambda s: s.media(media_derived_status="skipped"), JOB)],
    "b075": [(lambda s: s.media(media_derived_status=None), MEDIA),
             (lambda s: s.media(media_derived_status=""), MEDIA),
             (lambda s: s.media(media_derived_status="pending"), MEDIA),
             (lambda s: s.media(media_derived_status="processing"), MEDIA)],
    "b076": [(lambda s: s.media(media_url=None), JOB), (lambda s: s.media(media_url=""), JOB)],
    "b077": [(lambda s: s.media(age_s=121), f"{JOB}, media_wait_ceiling_passed")],
    "b078": [(lambda s: s.media(age_s=90), MEDIA)],
    "b079": [(lambda s: s.media("photo", age_s=20, type="image"), MEDIA)],
    "b080": [(lambda s: s.media(age_s=60, sent_at=-600), MEDIA),
             (lambda s: s.media(age_s=600, sent_at=-60), f"{JOB}, media_wait_ceiling_passed")],
    "b081": [(lambda s: s.media("old", age_s=600).media(), MEDIA),
             (lambda s: s.media("old", age_s=60).media(media_derived_status="ready"), MEDIA)],
    "b082": [(lambda s: _many_read(s.media("old", age_s=60), 20), JOB),
             (lambda s: _many_read(s.media("old", age_s=60), 19), MEDIA)],
    "b083": [(lambda s: s.media("sent", direction="outbound"), JOB),
             (lambda s: s.media("there", conversation_id="c2"), JOB)],
    "b086": [(lambda s: s.event("e2", age_s=5).asks("e1", "e2"), JOB)],
}

JOBS: dict[str, list[Example]] = {
    # what rides along in the reference is an open window here: rows of the queue absorb nothing
    "b091": [(lambda s: s.job("j", status="running"), JOB), (lambda s: s.job("j", status="done"), JOB),
             (lambda s: s.job("j", kind="followup_turn"), JOB),
             (lambda s: s.job("j", contact_id="bia"), JOB)],
    "b092": [(lambda s: s.job("j", run_after=math.inf, payload={"held_run_after": "x"}), JOB)],
    "b093": [(lambda s: s.job("j", run_after=math.inf, payload={"held_run_after": None}), JOB)],
    # the reference loses the message in that job for ever
    "b094": [(lambda s: s.job("j", run_after=math.inf), JOB)],
    "b110": [(lambda s: s.job("j", source_event_id="e1"), told_of("e1", job="j")),
             (lambda s: s.job("j", source_event_id="e1", status="dead"), told_of("e1", job="j")),
             (lambda s: s.job("j", payload={"event_ids": [uid("e0"), uid("e1")]}), told_of("e1", job="j")),
             (lambda s: s.event("e2", age_s=5).asks("e1", "e2").job("j", source_event_id="e1"),
              f"{JOB}, {told_of('e1', job='j')}")],
    "b111": [(lambda s: s.job("j", source_event_id="e1", organization_id="other clinic"), JOB),
             (lambda s: s.job("j", payload={"event_ids": [uid("e1")]}, organization_id="other clinic"), JOB)],
    "b112": [(lambda s: s.job("j", source_event_id="e1", payload={"event_ids": [uid("e1"), uid("e2")]})
              .asks("e1", "e2"), told_of("e1", "e2", job="j"))],
    "b115": [(lambda s: s.drop("contacts"), MISSING),
             (lambda s: s.contact(organization_id="other clinic"), MISSING)],
}

FOLLOWUP: dict[str, list[Example]] = {
    "b137": [(lambda s: s.returning().put("followup_flow_pointers", "pointer", status="paused"), JOB),
             (lambda s: s.returning().put("followup_flow_pointers", "pointer", active_version_id=None), JOB),
             (lambda s: s.returning(trigger={"kind": "manual", "params": {"threshold_minutes": 60}}), JOB),
             (lambda s: s.returning().drop("followup_flow_pointers"), JOB)],
    "b138": [(lambda s: s.returning(), YIELDS)],
    "b139": [(lambda s: s.returning().drop("messages").event("e1"), JOB)],
    "b140": [(lambda s: s.returning(after_s=DAY_S - 1), JOB), (lambda s: s.returning(after_s=DAY_S), YIELDS)],
    "b141": [(lambda s: s.returning(trigger=returns_after(59)), JOB),
             (lambda s: s.returning(after_s=100 * DAY_S, trigger=returns_after(90 * 1_440 + 1)), JOB),
             (lambda s: s.returning(trigger=returns_after(90.5)), JOB),
             (lambda s: s.returning(trigger=returns_after(60)), YIELDS),
             (lambda s: s.returning(after_s=91 * DAY_S, trigger=returns_after(90 * 1_440)), YIELDS)],
    "b142": [(lambda s: s.returning(flow=MODEL_FLOW), JOB),
             (lambda s: _armed(s.returning(flow=MODEL_FLOW), status="superseded"), JOB)],
    "b143": [(lambda s: _armed(s.returning(flow=MODEL_FLOW)), YIELDS)],
    "b144": [(lambda s: s.returning(trigger=_to("vip", "x")).contact(tags=["vip"]), YIELDS),
             (lambda s: s.returning(trigger=_to("vip")).contact(tags=["x"]), JOB),
             (lambda s: s.returning(trigger=_to("vip")).contact(tags=None), JOB),
             (lambda s: s.returning(trigger=_to()).contact(tags=["x"]), YIELDS)],
    # no yield: what stops then is told by the stop's own name
    "b145": [(lambda s: s.returning().conversation(is_group=True), GROUP),
             (lambda s: s.returning().contact(is_blocked=True), JOB),
             (lambda s: s.returning().contact(force_human=True), HUMAN),
             (lambda s: s.returning().conversation(assignee_kind="user"), OWNED),
             (lambda s: s.returning().conversation(bot_silenced_until=60), SILENCED),
             (lambda s: s.returning().conversation(bot_silenced_until=-60), YIELDS)],
    # the reference yields to a flow that will not greet: nobody answers
    "b146": [(lambda s: s.returning().conversation(bot_silenced_until=math.inf), SILENCED)],
    "b147": [(lambda s: s.returning().enrolled("active"), JOB),
             (lambda s: s.returning().enrolled("waiting_reply"), JOB),
             (lambda s: s.returning().enrolled("paused_handoff"), JOB),
             (lambda s: s.returning().enrolled("paused_manual"), JOB)],
    "b148": [(lambda s: s.returning().enrolled("completed"), YIELDS),
             (lambda s: s.returning().enrolled("cancelled"), YIELDS),
             (lambda s: s.returning().enrolled("dead"), YIELDS)],
    "b149": [(lambda s: s.returning().enrolled("active").enrolled_by("e1"), YIELDS),
             (lambda s: s.returning().enrolled("active").enrolled_by("another"), JOB)],
    "b150": [(lambda s: s.returning().enrolled("active", age_s=9), YIELDS),
             (lambda s: s.returning().enrolled("active", age_s=11), JOB),
             (lambda s: _campaign(s.returning()).enrolled("active", age_s=9, pointer="campaign"), JOB)],
    "b151": [(lambda s: s.returning(flow=None), JOB), (lambda s: s.returning(flow={"nodes": []}), JOB),
             (lambda s: s.returning(flow={"nodes": [{"id": "a", "type": "action"}], "edges": []}), JOB)],
    "b152": [(lambda s: s.returning().message("there", age_s=3_600, conversation_id="c2"), JOB),
             (lambda s: s.returning().message("long ago", age_s=2 * DAY_S, conversation_id="c2"), YIELDS)],
    "b153": [(lambda s: s.returning().flow("slow", returns_after(9_999), active_version_id="flow"), YIELDS)],
    "b154": [(lambda s: s.returning().channel(disabled=True), YIELDS)],
}
# fmt: on

DECISIONS = {
    **ORGANIZATION,
    **CONVERSATION,
    **CAPACITY,
    **ROUTERS,
    **LATEST,
    **GATE,
    **UNREAD,
    **JOBS,
    **FOLLOWUP,
}


def _vetoed(state: State) -> State:
    return state.channel(disabled=True, **ALLOWLIST).contact(force_human=True)


def _beside(name: str, *, greater: bool) -> str:
    """A message's name whose id sorts after, or before, that of another message."""
    own = uid(f"message of {name}")
    return next(
        other
        for other in map(str, range(100))
        if uid(f"message of {other}") != own and (uid(f"message of {other}") > own) == greater
    )


def _many_read(state: State, count: int) -> State:
    for n in range(count):
        state.media(f"read {n}", age_s=30 - n, media_derived_status="ready")
    return state.event("last", age_s=1).asks("last")


def _armed(state: State, *, status: str = "published") -> State:
    """A published agent, or one in another state, arms the flow; it serves another channel."""
    state.agent("armer", session="elsewhere", status=status)
    followup = {"enabled": True, "flow_pointer_ids": [uid("pointer")]}
    return state.put("ai_agent_versions", "version of armer", followup=followup)


def _to(*segments: str) -> object:
    return returns_after(1_440, segments=list(segments))


def _campaign(state: State) -> State:
    return state.flow("campaign", {"kind": "manual", "params": {}})


# -- decided as the worker does


on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def crm(postgres: str) -> Iterator[str]:
    with crm_database(postgres, f"behaviours_{uuid.uuid4().hex[:10]}") as url:
        yield url


@pytest.fixture(scope="module")
def rows(crm: str) -> Iterator[Connection]:
    with psycopg.connect(crm, autocommit=True) as connection:
        yield connection


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(crm: str) -> AsyncIterator[AsyncPool]:
    async with async_pool(crm, name="behaviours", max_size=1) as pool:
        yield pool


@on_one_loop
@pytest.mark.parametrize("behaviour", DECISIONS)
async def test_decision(behaviour: str, rows: Connection, pool: AsyncPool) -> None:
    """Each on Postgres' facts, and once more on facts read from the same rows in Python."""
    reader, told = FactReader(pool), TOLD[behaviour]
    for n, (change, expected) in enumerate(DECISIONS[behaviour]):
        state = change(State(time.time_ns() // 1_000_000))
        replace_rows(rows, state.tables())
        question = state.question()
        (facts,) = await reader.read([question])
        assert isinstance(facts, Facts)
        decision = in_words(decide(question, facts, Rules()))
        assert decision == expected, f"example {n} of: {told['given']}; then {told['then']}"
        again = decide(question, facts_in_memory(state.tables(), question, facts.db_now_ms), Rules())
        assert in_words(again) == expected, "Postgres and Python see the same rows differently"


def in_words(decision: Decision) -> str:
    """A decision as the tables above write it."""
    match decision:
        case Enqueue():
            said = [JOB]
        case Stop(reason=reason):
            said = [reason]
        case WaitForMedia():
            said = [MEDIA]
        case Fail(error_class=error_class):
            said = [error_class]
        case Emptied():
            said = []
        case LookAgain():
            raise AssertionError("nothing is slow here")
    names = {uid(name): name for name in ("e1", "e2", "j")}
    jobs: dict[str, list[str]] = {}
    for event, job in decision.deduplicated:
        jobs.setdefault(names[str(job)], []).append(names[event])
    said += [told_of(*events, job=job) for job, events in jobs.items()]
    return ", ".join([*said, *decision.warnings])
