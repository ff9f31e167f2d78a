"""Login and TLS of the brokers, once for both client libraries: aiokafka reads, librdkafka writes."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import faust


class SASL(faust.SASLCredentials):
    """Faust's credentials with a login, which remember what librdkafka calls them."""

    librdkafka: Mapping[str, str]


class TLS(faust.SSLCredentials):
    """Faust's credentials without one."""

    librdkafka: Mapping[str, str]


def credentials(config: Mapping[str, str]) -> SASL | TLS | None:
    """The `broker_credentials` of an app, from librdkafka's settings.

    Known: `security.protocol`, `sasl.mechanism` (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), `sasl.username`,
    `sasl.password`, `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`. None when there is
    nothing to know. Raises ValueError for a setting that it couldn't honour.
    """
    known = {
        "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password", "ssl.ca.location",
        "ssl.certificate.location", "ssl.key.location",
    }  # fmt: skip
    if unknown := config.keys() - known:
        raise ValueError(f"the transport can't pass {sorted(unknown)} to both of its clients")
    protocol = config.get("security.protocol", "PLAINTEXT")
    if protocol == "PLAINTEXT":
        return None
    context = _context(config) if protocol.endswith("SSL") else None
    made: SASL | TLS
    if protocol.startswith("SASL_"):
        made = SASL(
            username=config["sasl.username"],
            password=config["sasl.password"],
            mechanism=config.get("sasl.mechanism", "PLAIN"),
            ssl_context=context,
        )
    else:
        made = TLS(context)
    made.librdkafka = dict(config)
    return made


def _context(config: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=config.get("ssl.ca.location"))
    if "ssl.certificate.location" in config:
        context.load_cert_chain(config["ssl.certificate.location"], config.get("ssl.key.location"))
    return context


def for_librdkafka(given: Any) -> Mapping[str, str]:
    """librdkafka's settings of an app's `broker_credentials`. Raises ValueError when made elsewhere."""
    if given is None:
        return {}
    found: Mapping[str, str] | None = getattr(given, "librdkafka", None)
    if found is None:
        raise ValueError("make broker_credentials with streams.transport.credentials, for both clients")
    return found
