"""Every metric of Rajada: its name, type, help, labels, and which processes serve it (pure).

Names begin with `rajada_`, units are seconds and bytes, counters end with `_total` and count since the
process started. Labels have few values: never an id, a key, a name or a text. `python -m telemetry.catalogue`
prints the table of docs/metrics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram", "summary"]

PROCESSES: Final = ("relay", "worker", "delays", "sink", "web", "reconciler")
"""Who serves metrics, by the names that `rajada status` shows."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `served_by` are names of processes."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    served_by: tuple[str, ...]


CATALOGUE: Final[list[Metric]] = []
"""All of them, in the order of the documentation."""


def _add(kind: Kind, name: str, help: str, served_by: str, labels: str = "") -> Metric:
    by = PROCESSES if served_by == "all" else tuple(served_by.split())
    made = Metric(f"rajada_{name}", kind, help, tuple(labels.split()), by)
    CATALOGUE.append(made)
    return made


def _counter(name: str, help: str, served_by: str, labels: str = "") -> Metric:
    return _add("counter", name, help, served_by, labels)


def _gauge(name: str, help: str, served_by: str, labels: str = "") -> Metric:
    return _add("gauge", name, help, served_by, labels)


def _histogram(name: str, help: str, served_by: str, labels: str = "") -> Metric:
    return _add("histogram", name, help, served_by, labels)


def _summary(name: str, help: str, served_by: str, labels: str = "") -> Metric:
    return _add("summary", name, help, served_by, labels)


# -- every process
UP = _gauge("process_info", "1, with the name of the process.", "all", "process")
READY = _gauge("ready", "1 while the process can do its work, else 0 (as /readyz).", "all")
LOOP_SILENCE = _gauge(
    "loop_silence_seconds", "Since each loop of the process went round; above 60 it hangs.", "all", "loop"
)

# -- conservation: what came in is counted where it went
RECORDS_READ = _counter("records_read_total", "Records that a stage read.", "worker sink", "stage")
RECORDS = _counter(
    "records_total",
    "Where the records that a stage read went; the sum over fate equals rajada_records_read_total.",
    "worker sink",
    "stage fate",
)
WINDOWS_BEGUN = _counter(
    "windows_begun_total",
    "Windows that were opened, or found when partitions were taken over.",
    "worker",
    "how",
)
WINDOWS_ENDED = _counter(
    "windows_ended_total", "How windows ended: job, stop, dead, emptied, handed_over.", "worker", "end"
)
WINDOW_STOPS = _counter("window_stops_total", "Windows that became no job, by reason.", "worker", "reason")
WINDOWS_OPEN = _gauge("windows_open", "Windows that are open now: begun less ended.", "worker")
DECISIONS_FAILED = _counter("decisions_failed_total", "Decisions that failed and spent an attempt.", "worker")
MEDIA_WAITS = _counter("media_waits_total", "Looks that found a photo or audio not yet read.", "worker")
DATABASE_AWAY = _counter("database_away_total", "Cycles that found no database to decide from.", "worker")
ATTEMPTS_BEGUN = _counter("attempts_begun_total", "Attempts of jobs that began.", "worker")
ATTEMPTS_ENDED = _counter(
    "attempts_ended_total",
    "How attempts ended: done, delayed, failed, dead, held, handed_back, lost.",
    "worker",
    "end",
)
JOBS_RUNNING = _gauge("jobs_running", "Calls that are under way.", "worker")
JOBS_WAITING = _gauge("jobs_waiting", "Contacts whose next job waits for its turn.", "worker")
JOBS_MERGED = _counter("jobs_merged_total", "Jobs that a newer one of their conversation took in.", "worker")
SESSION_WAITS = _counter("session_waits_total", "Looks that found a channel session not working.", "worker")
COMMANDS = _counter("commands_total", "Commands that were read; refused ones did nothing.", "worker", "end")
ORGANIZATIONS_PAUSED = _gauge("organizations_paused", "Organizations whose jobs don't start now.", "worker")
DEAD_LETTERS = _counter(
    "dead_letters_total",
    "Records that a stage gave up on and put into the dead letters.",
    "relay worker delays sink",
    "stage",
)
DEAD_LETTERS_OPEN = _gauge(
    "dead_letters_open",
    "Dead letters that were neither requeued nor dropped, as the alert pass last counted them.",
    "sink",
    "topic",
)

# -- how long it takes
COMMIT_TO_JOB = _histogram(
    "commit_to_job_seconds",
    "From the commit of a window's first event until its job is durable in Kafka; the window is in it.",
    "worker",
)
COMMIT_TO_DONE = _histogram(
    "commit_to_done_seconds",
    "From the commit of a job's first event until the job is done; all waits are in it.",
    "worker",
    "kind",
)
WINDOW_LATENESS = _histogram(
    "window_lateness_seconds", "From a window's deadline until its decision begins.", "worker"
)
DECIDING = _histogram(
    "decide_seconds", "One question to the database for all windows that are due.", "worker"
)
LANE_WAIT = _histogram(
    "lane_wait_seconds", "From when a job may run until its attempt begins.", "worker", "kind"
)
HANDLER = _histogram(
    "handler_seconds", "One call of a handler, and what it answered.", "worker", "kind answer"
)
DELAY_LATENESS = _histogram(
    "delay_lateness_seconds", "From a delayed record's due time until it is back where it goes.", "delays"
)
OUTCOME_AGE = _histogram(
    "outcome_age_seconds", "Age of a batch's oldest outcome when it is written to Postgres.", "sink"
)

# -- the transport of a worker
COMMITTED = _gauge(
    "committed_offset", "Offset that the group has committed.", "worker reconciler", "topic partition"
)
UNCOMMITTED = _gauge(
    "uncommitted_records",
    "Offsets that are finished and not committed.",
    "worker reconciler",
    "topic partition",
)
UNFINISHED = _gauge(
    "unfinished_records",
    "Offsets that were delivered and aren't finished.",
    "worker reconciler",
    "topic partition",
)
BEHIND = _gauge(
    "behind_records",
    "Offsets between what is finished and the end of the log, as the newest fetch saw it.",
    "worker reconciler",
    "topic partition",
)
ALARMS = _counter(
    "alarms_total", "Alarms of the transport (docs/transport.md).", "worker reconciler", "alarm"
)
ALARM_ACTIVE = _gauge(
    "alarm_active", "1 while an alarm of the transport lasts.", "worker reconciler", "alarm"
)
MISMATCHES = _counter(
    "offset_mismatches_total", "Times that the fetcher stood elsewhere than expected.", "worker reconciler"
)
RETENTION_PASSED = _counter(
    "retention_passed_total",
    "Times that retention deleted records above a committed offset: they are lost to this group.",
    "worker reconciler",
)
DELIVERY_FAILURES = _counter(
    "delivery_failures_total",
    "Records that Kafka did not take. A worker ends at once, so there its restarts tell.",
    "worker reconciler relay",
)
REBALANCE_PAUSE = _summary(
    "rebalance_pause_seconds", "From giving partitions up until the next ones are ours.", "worker"
)
REBALANCE_LAST = _gauge("rebalance_pause_last_seconds", "The last such pause.", "worker")
RECOVERY = _summary("recovery_seconds", "Reading the state back when partitions come.", "worker")
RECOVERY_LAST = _gauge("recovery_last_seconds", "The last recovery.", "worker")
RECOVERY_LEFT = _gauge(
    "recovery_records_left",
    "Changelog records that a recovery has still to read; 0 otherwise.",
    "worker",
)
PARTITIONS = _gauge("partitions", "Partitions that are this process'.", "worker reconciler delays")
IN_FLIGHT = _gauge("in_flight_bytes", "Bytes of records that streams work on.", "worker reconciler")
OUTSTANDING = _gauge(
    "unacknowledged_records", "Records sent that Kafka has not taken yet.", "worker reconciler relay"
)
COMMITS_REFUSED = _counter(
    "commits_refused_total", "Commits of partitions that were going or gone.", "worker reconciler"
)
REREADS = _counter(
    "changelog_rereads_total", "Times that a table read its changelog again.", "worker reconciler"
)
LATE_WRITES = _gauge(
    "changelog_late_writes",
    "Writes of an earlier owner that recovery met and passed by.",
    "worker reconciler",
)

# -- the safety net
SWEPT = _counter("swept_events_total", "Events that were published again, since CDC had lost them.", "worker")
SWEEPS = _counter("sweeps_total", "Rounds of the sweep that did not go well: held, failed.", "worker", "end")
SWEEP_HELD = _gauge("sweep_held", "1 while the sweep rests, since somebody is behind.", "worker")
CLOCK_SKEW = _gauge("clock_skew_seconds", "The database's clock less ours, as last measured.", "worker")

# -- delays
DELAYS_FORWARDED = _counter("delays_forwarded_total", "Hops of delayed records.", "delays")
DELAYS_DUE = _counter("delays_due_total", "Of these: records that went back where they go.", "delays")
DELAYS_HELD = _gauge("delays_held_records", "Delayed records at hand.", "delays")
DELAYS_UNDONE = _counter("delays_undone_total", "Transactions that were aborted and made again.", "delays")

# -- publisher
PUBLISHED = _counter("published_total", "Rows that were handed to Kafka.", "relay")
ACKNOWLEDGED = _counter(
    "acknowledged_total", "Records that Kafka took, dead letters and outcomes included.", "relay"
)
RELAY_BACKLOG = _gauge(
    "relay_backlog_bytes", "WAL between what the server has sent and what is confirmed to it.", "relay"
)
SLOT_LAG = _gauge(
    "slot_lag_bytes", "WAL that Postgres keeps for a slot, as the alert pass last saw it.", "sink", "slot"
)
SLOT_LOST = _gauge("slot_lost", "1 while a slot is gone or given up by the server.", "sink", "slot")

# -- alerts of the CRM's inbox
ALERTS_RAISED = _counter("alerts_raised_total", "Alerts that were opened or counted up.", "sink", "kind")
ALERTS_OPEN = _gauge(
    "alerts_open", "Alerts that are not resolved, as the alert pass last counted them.", "sink", "kind"
)
ALERTS_FAILED = _counter("alerts_failed_total", "Alerts that could not be written.", "sink")

# -- the HTTP API
REQUESTS = _counter(
    "http_requests_total", "Answers of the HTTP API: ok, refused (4xx), failed (5xx).", "web", "answer"
)
GROUP_LINKS_ASKED = _counter(
    "group_links_asked_total", "Group links that were asked for: enqueued, known, sent_at_once.", "web", "end"
)

# -- the reconciler
RUNS = _counter("reconciler_runs_total", "Runs of the reconciler, by their end.", "reconciler", "end")
INSTANCES = _counter("reconciler_instances_total", "What the runs did.", "reconciler", "fate")
TICKS_LOST = _gauge(
    "reconciler_ticks_lost",
    "Ticks of the schedule that came to no run: skipped, missed.",
    "reconciler",
    "how",
)


def table() -> str:
    """The table of docs/metrics.md."""
    lines = ["| metric | type | labels | served by | what it is |", "| --- | --- | --- | --- | --- |"]
    for one in CATALOGUE:
        by = "all" if one.served_by == PROCESSES else ", ".join(one.served_by)
        labels = ", ".join(f"`{label}`" for label in one.labels)
        lines.append(f"| `{one.name}` | {one.kind} | {labels} | {by} | {one.help} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
