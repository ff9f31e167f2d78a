"""How Faust's command line gets our applications: an error with advice is one line there, no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from schemas import framing
from schemas.registry import registry_of
from settings import RajadaError, Settings, get_settings

if TYPE_CHECKING:
    import faust

COMMAND_LINE: Final = "faust.cli.faust"
"""The module that is loaded when an application is asked for by the command `faust`."""
EXIT_CODE: Final = 3
"""As of the `rajada` command for an error with advice."""


def built(build: Callable[[Settings], faust.App]) -> faust.App:
    """The application; what can't be is told in one line where the command `faust` asks for it.

    With RAJADA_DEBUG set, and for everybody else, the error is raised as it is.
    """
    try:
        settings = get_settings()
        framing.ask(lambda: registry_of(settings))
        return build(settings)
    except RajadaError as error:
        if COMMAND_LINE not in sys.modules or os.environ.get("RAJADA_DEBUG"):
            raise
        from click import ClickException

        told = ClickException(str(error))
        told.exit_code = EXIT_CODE
        raise told from None
