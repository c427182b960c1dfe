"""Servers and a browser for the tests of the viewer."""

from __future__ import annotations

import contextlib
import os

import pytest
from helpers.browser import FLAGS, find_browser

from slipstream.viewer.library import Library
from slipstream.viewer.server import Server


@pytest.fixture
def serve():
    """Start a server of a folder; it is stopped at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(folder, games=None, **settings):
            server = Server(Library(folder), games, **settings)
            server.start()
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture(scope="session")
def browser():
    path = find_browser()
    if path is None:
        if os.environ.get("SLIPSTREAM_NEED_BROWSER"):
            pytest.fail("no browser was found: install chromium, or run `playwright install chromium`")
        pytest.skip("no browser: `python tests/helpers/browser.py` installs one")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield program
        program.close()


# a missing file is shown on the page; a page tries to reach a server again that has been closed before it, or that was
# started again with another token
EXPECTED = ("Failed to load resource", "net::ERR_CONNECTION_REFUSED", "Unexpected response code: 403")


@pytest.fixture
def open_page(browser):
    """Open an address at a size; errors of the page's script fail the test."""
    contexts, errors = [], []

    def open_(url, width=1440, height=900, theme="dark", **more):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, **more)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda m: errors.append(m.text) if m.type == "error" and not any(x in m.text for x in EXPECTED) else None,
        )
        page.goto(url)
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert errors == []
