"""How every process of Rajada logs: structured lines on stderr, no personal data.

`RAJADA_LOG_FORMAT=json` gives one JSON object a line for machines, `console` lines for people. Lines of
the libraries (Faust, aiokafka, …) go the same way.
"""

from __future__ import annotations

import logging
import logging.config
import sys

import structlog

from settings import Settings

_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
_NOISY = ("aiokafka", "kafka", "faust", "mode", "asyncio", "yoyo", "httpx", "httpcore")


def logging_config(settings: Settings) -> dict[str, object]:
    """The standard library's configuration, in the form of `logging.config.dictConfig`.

    Faust configures logging once more when its worker starts: it is given this.
    """
    json = settings.log_format == "json"
    level = settings.log_level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"house": {"()": structlog.stdlib.ProcessorFormatter, **_formatter(json)}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "house"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            name: {
                "level": max(logging.getLevelName(level), logging.WARNING),
                "handlers": [],
                "propagate": True,
            }
            for name in _NOISY
        },
    }


def _formatter(json: bool) -> dict[str, object]:
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    chain = [*_SHARED, structlog.processors.format_exc_info] if json else _SHARED
    return {
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        "foreign_pre_chain": chain,
    }


def configure_logging(settings: Settings) -> None:
    """Send structlog's and the standard library's lines to stderr in the form that the settings name."""
    shared = list(_SHARED)
    if settings.log_format == "json":
        shared.append(structlog.processors.format_exc_info)
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
    logging.config.dictConfig(logging_config(settings))
