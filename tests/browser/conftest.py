"""A real Chromium, headless, looking at the live page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.eyes import Eyes

# the same servers and organizations as those who ask without eyes
from tests.integration.pages.conftest import ana as ana
from tests.integration.pages.conftest import bia as bia
from tests.integration.pages.conftest import page as page
from tests.integration.pages.conftest import stage as stage
from tests.live_page import Page, Tenant

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The browser that this machine has; RAJADA_CHROMIUM names another."""
    path = os.environ.get("RAJADA_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium here: `apt-get install chromium`, or name one with RAJADA_CHROMIUM")
    pytest.importorskip("playwright", reason="the package playwright is missing: pip install -e '.[dev]'")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # in a container there are no namespaces to lock it into, and /dev/shm is small
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def eyes(chromium: Browser, page: Page) -> Iterator[Eyes]:
    """A tab of a desktop; at the end nothing was asked of another server, and the console is empty."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    found = Eyes(context, page)
    yield found
    context.close()
    assert not found.complaints and not found.elsewhere


@pytest.fixture(scope="package")
def shadow(page: Page) -> Tenant:
    """An organization that a shadow would have answered where the old drain did not."""
    tenant = page.stage.tenant()
    page.stage.shadowed(tenant)
    return tenant
