"""How every process of Rajada logs: structured lines on stderr, no personal data.

`RAJADA_LOG_FORMAT=json` gives one JSON object a line for machines, `console` lines for people. Lines of
the libraries (Faust, aiokafka, …) go the same way.
"""

from __future__ import annotations

import logging
import logging.config
import sys
import traceback

import structlog

from schemas.masking import masked
from settings import Settings

_LINE_LENGTH = 500


def told(error: BaseException) -> str:
    """A traceback as it may be logged: where it was, and what each error says without personal data.

    No local variables: they hold whole jobs and messages. What an error says may quote a row or a record.
    """
    return _looked_through("".join(traceback.format_exception(error)))


def _looked_through(text: str) -> str:
    return "".join(map(_without_people, text.splitlines(keepends=True)))


def _without_people(line: str) -> str:
    text = line.strip()
    if not text or text.startswith("File "):
        return line
    return line[: len(line) - len(line.lstrip())] + masked(text, _LINE_LENGTH) + "\n"


def _traceback(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Puts the traceback of `exc_info` in its place, and looks through one that is text already."""
    given = event.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else None
    if isinstance(given, tuple):
        error = given[1]
    elif given and error is None:
        error = sys.exc_info()[1]
    if error is not None:
        event["exception"] = told(error)
    elif isinstance(event.get("exception"), str):
        event["exception"] = _looked_through(event["exception"])
    return event


def _on_one_line(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """What somebody else wrote adds no line and moves no cursor: control characters are written out.

    For people's eyes only, since JSON does so by itself. A traceback has lines; indented, none of them can
    pass for a line of ours.
    """
    for name, value in event.items():
        if isinstance(value, str):
            if name == "exception":
                event[name] = "\n".join("    " + _plain(line) for line in value.splitlines())
            else:
                event[name] = _plain(value)
    return event


def _plain(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _traceback,
]
_CHAIN: list[structlog.typing.Processor] = [
    structlog.stdlib.filter_by_level,
    *_SHARED,
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]
"""One list, however often logging is configured: loggers are kept with the one that they met first."""
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
    return {
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *([] if json else [_on_one_line]),
            renderer,
        ],
        "foreign_pre_chain": _SHARED,
    }


def configure_logging(settings: Settings) -> None:
    """Send structlog's and the standard library's lines to stderr in the form that the settings name."""
    structlog.configure(
        processors=_CHAIN,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(logging_config(settings))
