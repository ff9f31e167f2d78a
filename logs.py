"""How every process of Rajada logs: structured lines on stderr, no personal data.

`RAJADA_LOG_FORMAT=json` gives one JSON object a line for machines, `console` lines for people. Lines of
the libraries (Faust, aiokafka, …) go the same way.
"""

from __future__ import annotations

import logging
import sys

import structlog

from settings import Settings


def configure_logging(settings: Settings) -> None:
    """Send structlog's and the standard library's lines to stderr in the form that the settings name."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor
    if settings.log_format == "json":
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for noisy in ("aiokafka", "kafka", "faust", "mode"):
        logging.getLogger(noisy).setLevel(max(root.level, logging.WARNING))
