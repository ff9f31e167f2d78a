"""Why a job is tried again, held or given up, and what was done with it, in words (see `ops.reasons`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a few words, what it means, and what to do if it is not wanted."""

    title: str
    meaning: str
    advice: str = ""


JOB_REASONS: Final[Mapping[str, Reason]] = {
    # -- what a handler says of a job (docs/agent-engine.md)
    "no_engine": Reason(
        "no agent engine is named",
        "There is nobody to hand turns to: they are held, and go on by themselves when the worker knows one.",
        "Set AGENT_ENGINE_URL and start the worker anew.",
    ),
    "engine": Reason("the agent engine's decision", "The engine answered with this reason of its own."),
    "bad_decision": Reason(
        "a decision that can't be understood",
        "The engine's answer names a decision, but none of done, retry and cancelled.",
        "Correct the engine's answer (docs/agent-engine.md).",
    ),
    "bad_payload": Reason(
        "the job's payload is no JSON object",
        "The job's record was written by another program, and wrongly.",
        "Find out who writes to dispatch.jobs.",
    ),
    "timeout": Reason(
        "no whole answer in time",
        "The call took longer than AGENT_ENGINE_TIMEOUT_S and was broken off.",
        "Is the engine overloaded? Raise the setting if turns may take so long.",
    ),
    "read_timeout": Reason(
        "silent for too long",
        "Nothing came from the server within AGENT_ENGINE_READ_TIMEOUT_S.",
        "Is the engine overloaded? Raise the setting if turns may take so long.",
    ),
    "write_timeout": Reason("the request was not taken in time", "The server did not read what was sent."),
    "connect_timeout": Reason(
        "no connection in time",
        "The server did not take a connection within AGENT_ENGINE_CONNECT_TIMEOUT_S.",
        "Is it overloaded, or is a firewall between?",
    ),
    "connection_refused": Reason(
        "nobody listens there", "No server takes connections there.", "Start it, or correct its address."
    ),
    "connect_failed": Reason("no connection", "No connection to the server could be made."),
    "name_unknown": Reason(
        "the server's name is unknown", "Its name could not be resolved.", "Correct the address, or the DNS."
    ),
    "host_refused": Reason(
        "a host that may not be called",
        "RAJADA_OUTGOING_HOSTS does not name it: nothing was sent, and the job is held.",
        "Add the host there, or correct the address; jobs go on when the worker is started anew.",
    ),
    "address_refused": Reason(
        "an address that may not be called",
        "The server's name leads into a network that is not public: nothing was sent, and the job is held.",
        "Is it right? Name the network in RAJADA_OUTGOING_NETWORKS and start the worker anew. "
        "If not, look at who changes that name in the DNS.",
    ),
    "certificate": Reason(
        "the server's certificate is not trusted",
        "It is of an unknown authority, of another name, or out of date.",
        "Mend the certificate, or name its authority in RAJADA_CA_FILE.",
    ),
    "tls": Reason("no TLS connection", "The handshake failed.", "Does the server speak HTTPS on that port?"),
    "disconnected": Reason("the connection broke", "It broke before the answer was whole."),
    "broken_answer": Reason("an answer that is no HTTP", "It was broken off or is no HTTP at all."),
    "unreadable_answer": Reason(
        "an encoded answer",
        "The body is compressed in a way that can't be read, though plain was asked for.",
        "Let the server heed Accept-Encoding.",
    ),
    "redirect_loop": Reason(
        "sent on again and again", "Each answer was a redirect to the same server.", "Correct the address."
    ),
    "not_sent": Reason("the request could not be sent", "The HTTP library refused it."),
    "internal_error": Reason("an error of ours", "A handler failed; the worker's log has the details."),
    # -- what the executor, its intake and the delay topics find
    "worker_lost": Reason(
        "the worker died during the call",
        "Whether the call took effect is unknown: the attempt is spent, the next one has the same key.",
        "Does it happen to one job again and again? Then look at what that job makes the worker do.",
    ),
    "session_not_working": Reason(
        "the channel session does not work",
        "Its status is not WORKING: looked at again after 30 s, doubling to 10 min; no attempt is spent.",
        "Connect the number again; then the jobs go on by themselves, or at once by a `run_now`.",
    ),
    "out_of_credit": Reason(
        "out of credit for too long",
        "The engine answered 402 until 6 h after the job was made.",
        "Top the credit up, then requeue the dead letter.",
    ),
    "unknown_outcome": Reason(
        "nobody knows whether it was sent",
        "A group link's answer never came (or its worker died): sending it again could reach somebody twice.",
        "Look into the conversation, then release or cancel it (GROUP_LINK_ON_UNKNOWN).",
    ),
    "unknown_kind": Reason(
        "a kind of job without a handler",
        "This version has no handler for the job's kind.",
        "Upgrade Rajada, or find out who writes such jobs; then requeue the dead letter.",
    ),
    "contact_full": Reason(
        "too many jobs of this contact wait",
        "The contact's record of jobs that have not ended is full (8 MiB); further ones are dead letters.",
        "Why do they not end (held, an engine that is away)? When that is mended, requeue the dead letters.",
    ),
    "job_too_large": Reason(
        "a job too large to be run",
        "The job's record is above 1 MiB: it could not be written again for a further attempt.",
        "Who writes such jobs? Answer by hand.",
    ),
    "attempts_spent": Reason(
        "no attempt is left",
        "The job's record came with all its attempts spent; none of ours does.",
        "Find out who writes to dispatch.jobs; a requeue gives it new attempts.",
    ),
    "handler_failed": Reason(
        "an error of ours", "A handler raised instead of answering; the worker's log has the details."
    ),
    "no_reason_given": Reason("no reason given", "The other side said no and not why."),
    "other": Reason("another reason", "What was said is no code of ours: the job's last error tells it."),
    "bad_key": Reason(
        "a job or command under a key of ours",
        "The record's key is `#pauses`, which is no contact's.",
        "Find out who writes there.",
    ),
    "no_key": Reason(
        "a job without a key", "The record on `dispatch.jobs` names no contact.", "Find out who writes there."
    ),
    "no_value": Reason(
        "a job without a value", "The record on `dispatch.jobs` is empty.", "Find out who writes there."
    ),
    "undecodable": Reason(
        "a job or command that can't be read",
        "The record's bytes are none of ours, or a number in it is out of range.",
        "Find out who writes to dispatch.jobs or dispatch.control.",
    ),
    "due_at_unreadable": Reason(
        "delayed until nobody knows when",
        "The record came to a delay topic without a readable header `due-at`.",
        "Requeue the dead letter: the job then runs at once.",
    ),
    "forward_to_unreadable": Reason(
        "delayed to nowhere",
        "The record's header `forward-to` names no topic that delays lead to.",
        "Requeue the dead letter: it goes back to the topic it is meant for.",
    ),
    "too_large_to_delay": Reason(
        "too large for the next topic",
        "The record is larger than the next topic's max.message.bytes.",
        "Raise it (`rajada topics check` tells which differ), then requeue the dead letter.",
    ),
    # -- what ends a job
    "merged": Reason(
        "merged into a newer turn",
        "While a turn of the conversation ran, this one waited and went into a newer one.",
    ),
    "covered_by": Reason(
        "covered by a newer turn",
        "This turn waited for its retry; a newer one of the conversation was done meanwhile.",
    ),
}
"""By code; see `streams.handlers.answers` for how a reason begins with one."""

STEPS: Final[Mapping[str, Reason]] = {
    "done": Reason("answered", "The handler says that the job is done."),
    "retry": Reason("is tried again", "Its next record waits in the delay topics."),
    "dead": Reason("given up", "Its record is in `dispatch.dead`, and an alert is open.", "Requeue it."),
    "held": Reason("held", "It waits until it is released, and spends nothing.", "Release it."),
    "vetoed": Reason("vetoed", "The handler says never: 409, 410 or `cancelled`. Nobody is alarmed."),
    "cancelled": Reason("cancelled", "A person ordered it; a call that was under way was broken off."),
    "released": Reason("released", "It is in its lane again."),
    "run_now": Reason("is run now", "Whatever it waited for, it is in its lane again, before others."),
    "recovered": Reason(
        "taken up again",
        "Its row said for 10 minutes that it runs, and no worker knew it: it is in its lane.",
    ),
    "told_again": Reason(
        "told again",
        "Somebody asked where it stands, since what was told of it may have been lost; nothing else changed.",
    ),
    "unknown": Reason(
        "no worker knows it",
        "Somebody asked where it stands: it ended more than a day ago, or it went with its topic.",
        "`rajada jobs ask --run` begins it, `--close` ends it (docs/disasters.md).",
    ),
    "settled": Reason(
        "settled", "Its message reached the person by another way, such as a reminder: it counts as sent."
    ),
    "requeued": Reason("requeued", "A dead job was taken up again, with no attempt spent."),
    "handed_back": Reason(
        "handed back", "The worker stopped gracefully before the answer came: the attempt is given back."
    ),
    "awaited": Reason("the order waits", "The job isn't there yet; within a day the order waits for it."),
    "noted": Reason("the order is noted", "The job runs: it is held or not when this attempt has ended."),
    "refused": Reason("the order is refused", "It means nothing in the job's state, which the trace tells."),
}
"""What was done with a job, in its outcomes: before the reason (`retry:http_503`) or alone."""
