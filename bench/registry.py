"""Every part of `python -m bench`, in the order in which they run."""

from __future__ import annotations

from bench.part import Part

PARTS: tuple[Part, ...] = (
    Part(
        "main-path",
        "The main path",
        """\
From the topic to jobs: a backlog lies in the source topic; time counts from the moment at which the process
owns its partitions to the broker's append time of the last job or outcome. From commit to job row: rows lie
committed in `event_log`; time counts from the moment at which whoever reads the log (the relay, with worker
and sink standing by; a queue's drain) is ready, until a reader, who looks five times a second, sees nothing
left to do. All lines of a size work on the same rows, in turn, round by round; a first
round warms the servers up and is not counted. The plain loop is a confluent-kafka consumer with the same
decoding, windows, decisions and bytes, without any of the guarantees: the limit. Every job and outcome is
read back and checked against the workload. CPU and memory are those of a line's own processes; what Kafka and
Postgres did for it is in the machine's CPU, which has whoever else ran, too. WAL is what Postgres wrote in
the time that is counted.""",
        minutes=45,
        module="bench.parts.main_path",
        quick_s=75,
    ),
    Part(
        "killed",
        "One kill -9",
        """\
3,000 events of 300 contacts arrive live, 150 a second, in bursts that belong to one window of 5 s each.
After three quarters, when every engine has closed windows, the process is killed (`kill -9`) and started
again at once with what it left on disk; events go on meanwhile. When the last window is over and nothing
has come for a while, every job record is read back: which events are in no job, which under two job ids,
which in a job that was sent again under its id. A job's id follows from its window's first event with all
of them, so a repetition can be recognised. The pause is the longest time beyond its deadline that a window
waited for its outcome's record.""",
        minutes=20,
        module="bench.parts.killed",
    ),
    Part(
        "latency",
        "Commit to job",
        """\
Messages are written at a steady rate while publisher, worker and sink run. Counted is the time from before
the INSERT is sent until a reader sees the job's row, less the window's length (1 s); up to 100 a second
each message has a contact of its own, above it bursts of ten share a window, and the window's first message
counts. Lateness of a window is the time of its decision less its deadline. The polling line is computed,
not measured: a drain that looks every 20 s finds a message after 10 s on average.""",
        minutes=12,
        module="bench.parts.latency",
        quick_s=35,
    ),
    Part(
        "publisher",
        "From Postgres to Kafka",
        """\
Rows are committed while no publisher reads; then one starts, and time counts from its being ready (Debezium:
from its connector's being resumed) to the broker's append time of the last record. Then rows are inserted at
a steady pace, each counted from before its INSERT until a consumer has its record.""",
        minutes=6,
        module="bench.parts.publisher",
    ),
    Part(
        "growth",
        "Growth",
        """\
The same work while what lies around it grows: the backlog of 20,000 events beside more and more windows
that are open; decisions and the sink on a larger and larger `event_log`, on longer and longer
conversations, beside more and more pending jobs. The last must not cost more than 1.3 of the first. Sizes:
`--size most=N` caps all.""",
        minutes=40,
        module="bench.parts.growth",
    ),
    Part(
        "scale",
        "More workers",
        """\
1, 2 and 4 workers on 8 partitions with the same backlog, which is written while they stand still. Where
cores are fewer than workers, CPU an event says how it would scale: the rest is computed from it. Rolling
restart: two workers are restarted one after the other under a steady stream; the pause is the longest time
beyond its window that a message waited for its job's row.""",
        minutes=8,
        module="bench.parts.scale",
    ),
    Part(
        "executor",
        "Jobs",
        """\
A worker runs jobs against a stand-in engine whose turns take 0, 20 and 200 ms, 64 at a time; beside it, in
turn, the order changing, a bare httpx loop and our handler alone; a first round warms up and is not counted.
What the worker takes beyond the handler is lanes, outcomes,
leases and Kafka.""",
        minutes=8,
        module="bench.parts.executor",
    ),
    Part(
        "delays",
        "Delay topics",
        """\
Records of delays up to a minute, evenly many in each power of ten from 10 ms on, are sent at a steady rate;
lateness is taken when a reader of committed records has one in its hands.""",
        minutes=7,
        module="bench.parts.delays",
    ),
    Part(
        "sink",
        "The sink",
        """\
Outcomes lie in Kafka; the sink writes them, and in turn a bare UPDATE of the same rows in a database of its
own. Every round of a kind is alike, those of all kinds mixed as well.""",
        minutes=5,
        module="bench.parts.sink",
        quick_s=30,
    ),
    Part(
        "decisions",
        "Decisions",
        """\
Facts of due windows are read from a middling CRM (200 organizations, 40k conversations, 400k messages, 150k
jobs), in batches over one connection, and judged.""",
        minutes=2,
        module="bench.parts.decisions",
    ),
    Part(
        "recovery",
        "Dead letters and recovery",
        """\
100,000 dead letters are requeued with `rajada dlq requeue`, at the rate that it keeps by itself and as fast
as it can. A worker starts on a changelog of a million
contacts with an open window; is killed; and starts again from its disk.""",
        minutes=6,
        module="bench.parts.recovery",
    ),
)


def chosen(names: list[str], *, quick: bool) -> list[Part]:
    """The parts of these names, in the registry's order; without names all (of the quick ones).

    Raises KeyError with the unknown name.
    """
    known = {one.name for one in PARTS}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return [one for one in PARTS if (one.name in names if names else not quick or one.quick_s is not None)]
