"""Templates to answers: everything is escaped, and each answer says what a browser may do with it."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from web.pages import looks

FOLDER: Final = Path(__file__).parent
STATIC: Final = {"live.css": "text/css", "live.js": "text/javascript"}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("cache-control", "no-store"),
)
"""Of every answer; what is shown is nobody else's business, so it is stored nowhere."""

_REGION: Final = "region_"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("phone", "span", "size", "iso", "short", "tone", "bars"):
        made.filters[name] = getattr(looks, name)
    made.globals["age"] = looks.age
    made.globals["countdown"] = looks.countdown
    made.globals["clock"] = looks.clock
    made.globals["parts"] = made.get_template("_parts.html").module
    return made


def text_of(template: str, values: dict[str, object]) -> str:
    """A template as HTML; `now_ms` is put to its values."""
    return _environment().get_template(template).render(now_ms=time.time_ns() // 1_000_000, **values)


def page(template: str, values: dict[str, object], status: int = 200) -> HTMLResponse:
    """A template as an answer."""
    return HTMLResponse(text_of(template, values), status_code=status)


@cache
def _bytes(name: str) -> bytes:
    return (FOLDER / "static" / name).read_bytes()


def static(name: str) -> Response | None:
    """One of our own files; None: there is none of that name."""
    if name not in STATIC:
        return None
    return Response(_bytes(name), media_type=STATIC[name])


def regions_of(template: str, values: dict[str, object]) -> dict[str, str]:
    """The parts of a template that follow what happens: each block `region_<name>`, by its name."""
    found = _environment().get_template(template)
    context = found.new_context({"now_ms": time.time_ns() // 1_000_000, **values})
    return {
        name.removeprefix(_REGION): "".join(render(context))
        for name, render in found.blocks.items()
        if name.startswith(_REGION)
    }
