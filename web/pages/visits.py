"""One visit: who comes, what is asked for, and what a page of errors says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import parse_qsl, quote

import psycopg
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from db.pool import AsyncPool, is_away
from settings import RajadaError
from web.pages.desk import Declined, Desk, Missing
from web.pages.lately import Lately
from web.pages.rendering import page
from web.pages.sessions import COOKIE, same
from web.pages.viewers import Tries, Viewer, Viewers

log = structlog.get_logger(__name__)

LOGIN: Final = "/live/login"
_MOST_FIELDS: Final = 20
_FORM: Final = "application/x-www-form-urlencoded"
Answer = TypeVar("Answer")


class Counter:
    """What the page works with: made once a process."""

    def __init__(self, pool: AsyncPool, desk: Desk) -> None:
        self.desk = desk
        self.viewers = Viewers(pool)
        self.tries = Tries()
        self.lately = Lately()
        self.streams = 0
        self.closing = False
        """No stream goes on."""

    def close(self) -> None:
        """End what runs in the background."""
        self.closing = True
        self.lately.close()
        self.desk.close()


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody who has logged in asks for something."""

    request: Request
    viewer: Viewer
    counter: Counter
    form: Mapping[str, str]

    @property
    def desk(self) -> Desk:
        """What is asked."""
        return self.counter.desk

    async def lately(self, ask: Callable[..., Answer], *given: Hashable, **named: Hashable) -> Answer:
        """As it was a moment ago."""
        return await self.counter.lately.of(ask, *given, **named)

    async def now(self, ask: Callable[..., Answer], *given: object, **named: object) -> Answer:
        """As it is now, or an act."""
        return await self.counter.lately.now(ask, *given, **named)

    def values(self, **more: object) -> dict[str, object]:
        """What each template is given."""
        path = self.request.url.path.removeprefix("/live/stream")
        return {"viewer": self.viewer, "csrf": self.viewer.form_token, "path": path, **more}

    def page(self, template: str, **more: object) -> Response:
        """A page."""
        return page(template, self.values(**more))


Handler = Callable[[Visit], Awaitable[Response]]


def visited(
    counter: Counter, handler: Handler, *, acts: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint for who has logged in; with `acts` for operators alone. Forms must be of the session."""

    async def endpoint(request: Request) -> Response:
        """Let in, look at the form, and handle."""
        viewer = await counter.viewers.of(request.cookies.get(COOKIE))
        if viewer is None:
            return _to_login(request)
        if acts and not viewer.acts:
            return trouble(
                403, "Your token may only read. An operator's is made by `rajada tokens page add`.", viewer
            )
        form: Mapping[str, str] = {}
        if request.method == "POST":
            if not is_ours(request):
                return trouble(403, "That form was sent by another site. Nothing was done.", viewer)
            form = await read_form(request)
            if not same(viewer.form_token, form.get("csrf", "")):
                return trouble(
                    403, "That form is not of this session: load the page anew. Nothing was done.", viewer
                )
        try:
            return await handler(Visit(request, viewer, counter, form))
        except Missing as error:
            return trouble(404, str(error), viewer)
        except Declined as error:
            return trouble(409, str(error), viewer)
        except RajadaError as error:
            # who sees one organization is not told of our servers
            told = (
                str(error) if viewer.whose is None else "A server does not answer now; try again in a moment."
            )
            return trouble(503, told, viewer)

    return guarded(endpoint)


def guarded(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint whose errors are pages."""

    async def answer(request: Request) -> Response:
        """Answer with a page, whatever happens."""
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except psycopg.errors.UndefinedTable:
            return trouble(503, "The database lacks tables: `rajada migrate` makes them.")
        except Exception as error:
            if isinstance(error, (psycopg.Error, OSError)) and is_away(error):
                return trouble(503, "The database can't be reached now; try again in a moment.")
            log.exception("page_defect")
            return trouble(500, "An error of ours; the log of `rajada web` has the details.")

    return answer


def trouble(status: int, message: str, viewer: Viewer | None = None) -> Response:
    """A page that says what is wrong."""
    values = {"viewer": viewer, "csrf": viewer.form_token if viewer else "", "path": ""}
    return page("trouble.html", {**values, "status": status, "message": message}, status)


def is_ours(request: Request) -> bool:
    """Whether a form comes from a page of ours, as far as the browser tells."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:  # it knows better than we do what a proxy made of the host
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host", "")


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form, the last of each name; raises HTTPException for what is none."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415)
    body = await request.body()
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise HTTPException(400) from None


def _to_login(request: Request) -> Response:
    if request.method != "GET":
        return trouble(401, "Your session has ended: log in and do it again. Nothing was done.")
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{LOGIN}?next={quote(wanted, safe='')}", status_code=303)
