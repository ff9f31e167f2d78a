"""Whether the agent engine is named and there (docs/agent-engine.md)."""

from __future__ import annotations

from typing import Final

import httpx

from ops.doctor.findings import Finding, Verdict, examine, fail, ok, warn
from ops.endpoints import stand_in_of
from settings import Settings
from streams.handlers.http import Limits, trusted
from streams.handlers.http_faults import no_reply
from streams.handlers.names import resolved
from streams.handlers.outgoing import Outgoing, Refused

LOOK_S: Final = 5.0
_LIMITS: Final = Limits(LOOK_S, LOOK_S, LOOK_S)


def engine_findings(settings: Settings) -> list[Finding]:
    """The engine, from this machine; it is asked with a GET, which is no turn."""
    return examine("jobs", {"agent engine": lambda: agent_engine(settings)})


def agent_engine(settings: Settings) -> Verdict:
    """Whether turns can be handed over."""
    if settings.jobs_run_by == "table":
        return ok("not asked: the CRM's own workers run the jobs")
    url = stand_in_of(settings) or settings.agent_engine_url
    if url is None:
        return warn(
            "AGENT_ENGINE_URL is not set: turns are held",
            "set it and start the worker anew; `rajada engine` is a stand-in to try things out",
        )
    refused = refused_call(settings, url)
    if refused:
        return fail(refused, "turns are held until the setting allows it and the worker is started anew")
    token = settings.agent_engine_token
    headers = {"Authorization": f"Bearer {token.get_secret_value()}"} if token is not None else {}
    try:
        with (
            httpx.Client(verify=trusted(settings.ca_file), trust_env=False, timeout=LOOK_S) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            return engine_verdict(response.status_code)
    except httpx.HTTPError as error:
        return fail(
            f"no answer: {no_reply(error, _LIMITS, sent=True).reason}",
            "start it, or correct AGENT_ENGINE_URL: a turn is tried five times, then it is dead",
        )


def refused_call(settings: Settings, url: str) -> str:
    """Why a worker here would not call this URL (docs/security.md); empty: it would."""
    host, outgoing = httpx.URL(url).host, Outgoing.of(settings)
    addresses = resolved(host)
    try:
        outgoing.check_host(host)
        for address in () if isinstance(addresses, str) else addresses:
            outgoing.check_address(host, address)
    except Refused as error:
        return str(error)
    return ""


def engine_verdict(status: int) -> Verdict:
    """What the answer to a GET means: most engines know POST alone, so 404 and 405 are no trouble."""
    found = f"answers ({status})"
    if status in (401, 403):
        return fail(found, "correct AGENT_ENGINE_TOKEN: turns would be dead at once")
    if 300 <= status < 400:
        return warn(found, "it sends us on: correct AGENT_ENGINE_URL, few redirects are followed")
    if status >= 500:
        return warn(found, "look at the engine's log")
    return ok(found)
