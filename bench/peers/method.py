"""How the peers are measured and what is unlike ours, for the page of the benchmarks."""

from __future__ import annotations

from bench.peers.program import INSTALL, PYTHON

PEERS_METHOD = f"""\
## The others

Beside ours stand other ways to do the main path's work: Kafka Streams, Quix Streams and Faust without our
transport read the same topic; procrastinate and pgqueuer work on the same rows of `event_log`. Their programs
are in `bench/peers/`, written as their documentation advises. They are measured in the same rounds as ours,
by the same clock: from the moment at which a process says that it has its partitions and its state to the
broker's time of the last job or outcome; for the two queues, as for ours beside them, from the moment at
which it is ready to read a log that is full until a reader sees the last job's row. What they use is read by
one meter over that very time: CPU and memory are those of a line's own processes, and what Kafka and Postgres
do for it shows in the whole machine's CPU. Every event must be in exactly one job, else the round counts as
failed.

`{INSTALL}` gets their packages. Quix Streams wants an older `confluent-kafka` than ours, so they are best
installed in an environment of their own, whose Python the variable `{PYTHON}` names. Kafka Streams needs
neither: its jars and the Eclipse compiler come from Maven Central once, Java as for the embedded Kafka. A
peer whose packages are missing is told below its table, with what installs them.

**What speaks for the others.** They do less. None of them reads a decision from Postgres, looks up how long
a contact's window is, or writes a window down before its job is sent (so that a repetition has the same
bytes), and none keeps dead letters, replays or media. Ours and the plain loop do decide, in the same rounds;
ours does all the rest as well. Kafka Streams writes jobs and outcomes as JSON, which is less work than Avro
and more bytes. procrastinate and pgqueuer write no outcomes.

**What speaks against them.** They take an event at a time where ours takes a batch, since that is their way.
Kafka Streams runs with one stream thread (its default) and reads its state from RocksDB.

**What was done to be fair.** A JVM compiles what it runs often, so Kafka Streams first works off 30,000 other
events in the same process; then the measured ones are committed in one transaction, so that it finds a
backlog, and its time begins there: warm is compared with warm. The peers in Python decode events and make
jobs and outcomes by our own functions. All notice a dead member after 6 s, begin at the beginning, and,
where they can, read only what was committed; everything else is their default, but for what a line says.
No engine tells its program where a log ends, so a last record in every partition, which is no event, closes
the windows of the others; ours knows by itself.

**Same windows?** Kafka Streams and stock Faust make windows as ours: anchored at a conversation's first
event, with its own length. Quix Streams has only windows that are aligned to the epoch, sliding, or ended by
silence; a session window with our length as its gap gives the same windows on this workload, where a burst
is shorter than its window and followed by silence, and others elsewhere. It closes a window two lengths
after its last event, by events only: without traffic it stays open. The two queues take the events that are
in the log when the window is over; the drain before them goes on in the log where it was, by an index. Ours
reads a log that lies in the past through the relay: of a burst whose rest comes after the worker has caught
up, the first events are superseded by the rest, as they would be live.

**Exactly once** is a variant of Kafka Streams here (`kafka-streams-eos`). Its records can be read when its
transaction is committed, up to 100 ms after the time that is counted.

Slow ones are given the smallest backlog alone. For a larger one their time is told as an extrapolation at
the measured pace, as if neither keys nor state mattered; it was not measured.
"""
