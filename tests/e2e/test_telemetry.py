"""What six real processes tell of themselves while they answer a burst and send a group link."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import httpx
import pytest

from ops.clinic import Clinic, Connection, Message, Written
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from ops.whatsapp.serving import WhatsAppBeside
from schemas.codec import decode_outcome
from streams.identifiers import NIL, job_id
from telemetry.catalogue import CATALOGUE
from telemetry.trace_ids import own_ids
from tests.e2e.conftest import MakeProcesses
from tests.e2e.group_links import School, settings
from tests.e2e.processes import Processes
from tests.e2e.telemetry import NAMES, Ports
from tests.e2e.topic_reading import murmur2_producer, read_all, records_of
from tests.e2e.waiting import until, value
from tests.otlp import Receiver, receiving

WINDOW_MS = 500
CLOCKS_NS = 100_000_000
"""What the broker's clock and ours may differ on one machine: the forwarder's is a moment that has passed."""
ENGINE_TOKEN = "engine-secret-token"
OTLP_TOKEN = "otlp-secret-token"
WHATSAPP_TOKEN = "stand-in-token"
SECRETS = (ENGINE_TOKEN, OTLP_TOKEN, WHATSAPP_TOKEN)
NAME, PHONE, TEXT, MAIL = "Ana Souza", "+5511987654321", "my test was positive", "ana@example.com"
OF_A_RECORD = ("dead_letter", "invalid_payload", "group_link_discarded", "unknown_schema")
PEOPLE = (NAME, PHONE, PHONE[1:], PHONE[3:], TEXT, MAIL)
WHEN_THERE_IS_SOMETHING = {
    "rajada_window_stops_total", "rajada_alerts_raised_total", "rajada_reconciler_runs_total",
    "rajada_reconciler_instances_total", "rajada_behind_records", "rajada_committed_offset",
    "rajada_uncommitted_records", "rajada_unfinished_records",
}  # fmt: skip
"""Metrics without a sample until it happens."""


@pytest.fixture
def ports(unused_tcp_port_factory: object) -> Iterator[Ports]:
    """A free port for each process."""
    made = Ports({name: unused_tcp_port_factory() for name in NAMES})  # type: ignore[operator]  # a fixture's
    yield made
    made.client.close()


@pytest.fixture
def otlp() -> Iterator[Receiver]:
    """Who takes traces."""
    with receiving() as receiver:
        yield receiver


@dataclass
class Worked:
    """A burst that was answered at the second attempt, and a group link that was sent."""

    processes: Processes
    clinic: Clinic
    burst: list[Written]
    job: str
    phone: str
    seen: set[str]
    """Parts that the worker's /readyz named before it was ready."""


@pytest.fixture
def worked(
    processes: MakeProcesses, ports: Ports, connection: Connection, engine: EngineBeside,
    whatsapp: WhatsAppBeside, otlp: Receiver,
) -> Worked:  # fmt: skip
    made = processes(
        **settings(whatsapp, AGENT_ENGINE_URL=engine.url, RAJADA_ALERTS_EVERY_S="0.5"),
        AGENT_ENGINE_TOKEN=ENGINE_TOKEN,
        RAJADA_TRACING="1",
        RAJADA_LOG_LEVEL="DEBUG",
        OTEL_EXPORTER_OTLP_ENDPOINT=otlp.url,
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization={OTLP_TOKEN}",
        OTEL_BSP_SCHEDULE_DELAY="200",
    )
    for name in ("worker", "reconciler"):
        ports.commands[name] += ["-l", "debug"]
    ports.spawn(made, *NAMES)
    seen: set[str] = set()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            answer = ports.ask("worker", "readyz")
        except httpx.HTTPError:
            time.sleep(0.02)
            continue
        if answer.status_code == 200:
            break
        seen |= {one["part"] for one in answer.json()["troubles"]}
        assert all(one["what_to_do"] for one in answer.json()["troubles"])
        time.sleep(0.02)
    for name in NAMES:
        made.wait_ready(name)
    engine.treat(Scenario(mode="rate", retry_after="1", times=1))
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    (ana,) = clinic.register(connection, ["Ana"])
    burst = [clinic.write(connection, [Message(ana)])[0] for _ in range(3)]
    school = School.found(connection, made)
    phone = school.enrol(1)
    until(lambda: value(connection, "SELECT count(*) FROM job_queue WHERE status = 'done'") == 1, 30)
    school.becomes(phone, "sent")
    until(lambda: ports.scrape("sink").of("rajada_slot_lag_bytes", slot=made.environment["RAJADA_SLOT"]) > 0)
    return Worked(made, clinic, burst, job_id(clinic.organization_id, burst[0].event_id), phone, seen)


def test_what_a_run_leaves_behind(
    worked: Worked, ports: Ports, otlp: Receiver, engine: EngineBeside, kafka: str, prefix: str
) -> None:
    """One run, since six processes take a while to start."""
    metrics_and_probes(worked, ports)
    traces(worked, otlp, engine, kafka, prefix)
    logs(worked, ports, kafka, prefix)


def logs(worked: Worked, ports: Ports, kafka: str, prefix: str) -> None:
    """Records on every topic that are full of people, none of which can be used, and then the logs."""
    content = json.dumps({"name": NAME, "phone": PHONE, "text": TEXT, "mail": MAIL}).encode()
    row = {
        "id": str(uuid4()), "organization_id": worked.clinic.organization_id, "status": "pending",
        "event_type": "group_link.dispatch_requested", "metadata": content.decode(),
        "payload": json.dumps({"phone": PHONE, "student_name": NAME, "group_link": TEXT}),
    }  # fmt: skip
    producer = murmur2_producer(kafka)
    for topic in (
        "ai_agent.dispatch_requested", "dispatch.jobs", "dispatch.control", "dispatch.outcomes",
        "dispatch.delay.1s", "group_link.dispatch_requested",
    ):  # fmt: skip
        for bad in (content, b"\xc3\x01" + content, json.dumps(row).encode()):
            headers = [("name", NAME.encode()), ("traceparent", PHONE.encode())]
            producer.produce(f"{prefix}{topic}", bad, f"{NIL}:{PHONE}", headers=headers)
    producer.flush(10)
    before = ports.scrape("worker").of("rajada_records_read_total", stage="group_links")

    def all_met() -> bool:
        worker, sink, delays = (ports.scrape(name) for name in ("worker", "sink", "delays"))
        return (
            worker.sum("rajada_dead_letters_total") >= 5
            and sink.sum("rajada_dead_letters_total") >= 2
            and delays.sum("rajada_dead_letters_total") >= 3
            and worker.of("rajada_records_read_total", stage="group_links") >= 4 >= before
        )

    until(all_met, 30)
    worked.processes.stop()
    events = set()
    for name in NAMES:
        text = worked.processes.log(name).read_text()
        found = [secret for secret in (*SECRETS, *PEOPLE, worked.phone, worked.phone[3:]) if secret in text]
        assert not found, (name, found, next(line for line in text.splitlines() if found[0] in line))
        for line in text.splitlines():
            if line.startswith("{"):
                told = json.loads(line)
                assert told["event"] and told["level"] and told["timestamp"], line
                events.add(told["event"])
                if told["event"] in OF_A_RECORD:
                    assert {"partition", "offset"} <= told.keys(), line
    assert {"dead_letter", "metrics_served", "partitions_owned"} <= events, events


def traces(worked: Worked, otlp: Receiver, engine: EngineBeside, kafka: str, prefix: str) -> None:
    trace = worked.job.replace("-", "")

    def all_told() -> bool:
        told = otlp.of(trace)
        return any(one.name == "delay" for one in told) and "done" in [
            one.attributes.get("rajada.job_status") for one in told
        ]

    until(all_told, 30, told=lambda: otlp.of(trace))
    first, *later = otlp.of(trace)
    assert (first.name, first.service, first.parent) == ("job", "rajada-worker", "")
    assert first.links == tuple(own_ids(one.event_id) for one in worked.burst), "a link to every message"
    assert (first.end_ns - first.start_ns) >= WINDOW_MS * 1_000_000 and first.events == len(worked.burst)
    attempts = [one for one in later if one.name == "attempt inbound_turn"]
    calls = [one for one in later if one.name == "POST"]
    waits = [one for one in later if one.name == "delay"]
    assert {one.service for one in waits} == {"rajada-delays"} and {one.parent for one in waits} == {
        first.span
    }
    assert attempts[0].end_ns <= waits[0].end_ns and waits[-1].end_ns <= attempts[1].start_ns + CLOCKS_NS
    assert [one.attributes["rajada.attempt"] for one in attempts] == [1, 2]
    assert {one.parent for one in attempts} == {first.span}, "attempts are spans of the one trace"
    assert [one.attributes["rajada.answer"] for one in attempts] == ["retry", "done"]
    assert [one.parent for one in calls] == [one.span for one in attempts]
    assert [one.attributes["http.response.status_code"] for one in calls] == [429, 200]
    asked = [one.traceparent for one in engine.requests()]
    assert asked == [f"00-{trace}-{one.span}-01" for one in calls], "the engine is in the trace, too"
    writes = [one for one in later if one.name == "write"]
    assert {(one.service, one.parent) for one in writes} == {("rajada-sink", first.span)}
    assert writes[-1].attributes["rajada.job_status"] == "done" and writes[-1].end_ns == max(
        one.end_ns for one in (first, *later)
    ), "it ends with what Postgres has"
    assert worked.processes.rajada("reconcile").returncode == 0
    until(lambda: any(one.name == "reconcile" for one in otlp.spans), 10)
    (run, *_) = [one for one in otlp.spans if one.name == "reconcile"]  # its schedule may tick meanwhile
    assert (run.service, run.parent, run.attributes["rajada.end"]) == ("rajada-reconciler", "", "done")
    for written in worked.burst:
        event_trace, event_span = own_ids(written.event_id)
        (published,) = otlp.of(event_trace)
        assert (published.name, published.service, published.span) == ("publish", "rajada-relay", event_span)
    for topic in (
        "ai_agent.dispatch_requested",
        "dispatch.jobs",
    ):  # three messages; two jobs, one of them twice
        for record in read_all(kafka, f"{prefix}{topic}", 3):
            assert sum(name == "traceparent" for name, _ in record.headers() or []) == 1, topic
    outcomes = f"{prefix}dispatch.outcomes"
    for record in read_all(kafka, outcomes, records_of(kafka, outcomes)):
        outcome = decode_outcome(record.value() or b"")
        parents = [name for name, _ in record.headers() or [] if name == "traceparent"]
        assert len(parents) <= 1 and (parents or outcome.job_id is None), outcome
    told = repr(otlp.spans)
    assert not [secret for secret in (*SECRETS, worked.phone) if secret in told]


def metrics_and_probes(worked: Worked, ports: Ports) -> None:
    known = {metric.name: metric for metric in CATALOGUE}
    shown = {name: ports.scrape(name) for name in NAMES}
    for name, scrape in shown.items():
        for metric, kind in scrape.kinds.items():
            told = known[metric]
            assert name in told.served_by and kind == told.kind, (name, metric)
            labelled = {labels - {"quantile"} for labels in scrape.labels[metric]}
            assert labelled == {frozenset(told.labels)}, (name, metric)
        promised = {metric.name for metric in CATALOGUE if name in metric.served_by}
        assert promised - scrape.kinds.keys() <= WHEN_THERE_IS_SOMETHING, name
        for probe in ("livez", "readyz", "startupz"):
            answer = ports.ask(name, probe)
            assert (answer.status_code, answer.json()) == (200, {"process": name, "ok": True, "troubles": []})
    assert worked.seen >= {"group"}, "the worker told what it waited for before it was ready"
    assert ports.ask("web", "nothing").status_code == 404
    worker, sink = shown["worker"], shown["sink"]
    for scrape, stages in ((worker, ("collect", "jobs", "group_links")), (sink, ("sink",))):
        for stage in stages:
            read = scrape.of("rajada_records_read_total", stage=stage)
            assert read == scrape.sum("rajada_records_total", stage=stage) > 0, stage
    begun, ended = worker.sum("rajada_windows_begun_total"), worker.sum("rajada_windows_ended_total")
    assert begun - ended == worker.of("rajada_windows_open") == 0
    assert worker.of("rajada_attempts_ended_total", end="done") == 2
    assert shown["relay"].of("rajada_published_total") == 4
    assert worker.of("rajada_commit_to_job_seconds_count") == 1
    assert worker.of("rajada_commit_to_job_seconds_sum") >= WINDOW_MS / 1000
    assert worker.of("rajada_commit_to_done_seconds_sum", kind="inbound_turn") >= 1 + WINDOW_MS / 1000, (
        "it waited for its retry"
    )
    assert shown["delays"].of("rajada_delay_lateness_seconds_count") >= 1
    assert worker.of("rajada_recovery_seconds_count") >= 1 and worker.of("rajada_partitions") > 0
    committed = {dict(labels)["topic"] for name, labels in worker.values if name == "rajada_committed_offset"}
    assert len(committed) == 4, "the topics of all its agents, and no changelogs"


def test_a_process_without_its_database_says_so_and_lives(
    processes: MakeProcesses, ports: Ports, unused_tcp_port: int
) -> None:
    made = processes(DATABASE_URL=f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none")
    ports.spawn(made, "web")

    def told() -> list[str]:
        try:
            return [one["part"] for one in ports.ask("web", "readyz").json()["troubles"]]
        except httpx.HTTPError:
            return []

    until(lambda: told() == ["database"], 90)
    answer = ports.ask("web", "readyz")
    assert answer.status_code == 503 and "rajada doctor" in answer.json()["troubles"][0]["what_to_do"]
    assert ports.ask("web", "startupz").status_code == 503
    assert ports.ask("web", "livez").status_code == 200, "a restart would not bring the server back"
    assert ports.scrape("web").of("rajada_ready") == 0
