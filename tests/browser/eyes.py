"""A tab of the browser, and what it is asked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.live_page import Page

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext
    from playwright.sync_api import Page as Tab

SHOTS = os.environ.get("RAJADA_SHOTS")
"""A folder: pictures of each page are put there for people to look at."""
SIZES = {"wide": (1280, 900), "phone": (375, 740)}
SCRIPTS = Path(__file__).parent


class Eyes:
    """A tab, and all that its browser complained about."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.tab: Tab = context.new_page()
        self.tab.set_default_timeout(15_000)
        self.address = page.address
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.tab.on(
            "console", lambda told: self.complaints.append(told.text) if told.type == "error" else None
        )
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", self._asked)

    def _asked(self, request: object) -> None:
        url = getattr(request, "url", "")
        if not url.startswith((self.address, "data:")):
            self.elsewhere.append(url)

    def open(self, path: str) -> None:
        """Load a page."""
        self.tab.goto(f"{self.address}/live{path}", wait_until="load")

    def log_in(self, token: str) -> None:
        """Paste a token."""
        self.open("/login")
        self.tab.get_by_label("Token").fill(token)
        self.tab.get_by_role("button", name="Log in").click()
        self.tab.get_by_role("heading", name="Overview").wait_for()

    def shot(self, name: str) -> None:
        """A picture for people."""
        if SHOTS:
            self.tab.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)

    def wrong(self, *scripts: str) -> list[str]:
        """What these scripts, by name, find wrong with the page."""
        return [one for name in scripts for one in self.tab.evaluate((SCRIPTS / f"{name}.js").read_text())]

    def tree(self) -> Spoken:
        """What the browser tells a screen reader of the page."""
        session = self.tab.context.new_cdp_session(self.tab)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        session.detach()
        return Spoken(one for one in nodes if not one["ignored"])


class Spoken:
    """The accessibility tree of a page: roles and names, in the order in which they are read."""

    def __init__(self, nodes: Iterable[Any]) -> None:
        told = [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in nodes]
        self.told: list[tuple[str, str]] = told

    def of(self, *roles: str) -> list[str]:
        """The names of all that have one of these roles."""
        return [name for role, name in self.told if role in roles]
