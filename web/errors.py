"""Errors as the API tells them: one shape, a code for programs, words for people, the fields that are wrong.

What was sent is never repeated in an answer: it holds people's names and phones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from settings import RajadaError


class WrongField(BaseModel):
    """One field that is out of contract."""

    field: str = Field(description="Its name, as in the body or the path; `body` for the whole of it.")
    message: str


class Trouble(BaseModel):
    """What is wrong."""

    code: str = Field(description="For programs; one of those that docs/group-links.md lists.")
    message: str = Field(description="For people: what is wrong and what to do.")
    fields: list[WrongField] = Field(default_factory=list)


class Problem(BaseModel):
    """The body of every answer that is an error."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "error": {
                        "code": "invalid",
                        "message": "The request is out of contract.",
                        "fields": [{"field": "phone", "message": "must be E.164, like +5511988887777"}],
                    }
                }
            ]
        }
    )
    error: Trouble


@dataclass(slots=True)
class Refused(RajadaError):
    """A request that is answered with an error."""

    status: int
    code: str
    message: str
    fields: Sequence[tuple[str, str]] = ()
    """Name and what is wrong with it."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """For a log: no content."""
        return f"{self.status} {self.code}"

    def response(self) -> JSONResponse:
        """The answer."""
        told = Trouble(
            code=self.code,
            message=self.message,
            fields=[WrongField(field=name, message=message) for name, message in self.fields],
        )
        return JSONResponse(
            Problem(error=told).model_dump(), status_code=self.status, headers=dict(self.headers)
        )


DATABASE_AWAY: Final = Refused(
    503, "database_away", "The database can't be reached now; ask again.", headers={"Retry-After": "5"}
)


_HTTP: Final = {
    400: ("unreadable_body", "The body can't be read."),
    404: ("not_found", "There is nothing of that name; /openapi.json tells what there is."),
    405: ("method_not_allowed", "That can't be asked in this way; /openapi.json tells how."),
    408: ("request_timeout", "The body did not come in time."),
    413: ("body_too_large", "The body is larger than RAJADA_WEB_MAX_BODY_KB allows."),
}
"""What the framework refuses by its status."""


def install(application: FastAPI) -> None:
    """Let an application tell its errors so."""
    application.add_exception_handler(Refused, _refused)
    application.add_exception_handler(RequestValidationError, _invalid)
    application.add_exception_handler(HTTPException, _http)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return error.response()


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    fields = [(_name(one["loc"]), _said(one)) for one in error.errors()]
    return Refused(422, "invalid", "The request is out of contract.", fields).response()


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return of_status(error.status_code, error.headers).response()


def of_status(number: int, headers: Mapping[str, str] | None = None) -> Refused:
    """What is refused by its HTTP status alone."""
    code, message = _HTTP.get(number, ("refused", "The request is refused."))
    return Refused(number, code, message, headers=headers or {})


def _name(where: Sequence[Any]) -> str:
    """The field's name: what follows `body`, `path` or `header`."""
    parts = [str(part) for part in where[1:] if not isinstance(part, int)]
    return ".".join(parts)[:100] or str(where[0] if where else "body")


def _said(error: Mapping[str, Any]) -> str:
    """What is wrong with a field, without what it holds."""
    if error.get("type") == "value_error":
        return str(error["ctx"]["error"])
    return str(error.get("msg", "is wrong"))
