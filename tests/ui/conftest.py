"""A fleet with its pages, and a browser that looks at them; both for the whole run."""

import os
import pathlib
import shutil
import sys

import pytest
from playwright.sync_api import expect, sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))

from fleet import Fleet  # noqa: E402

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()
SCREENSHOTS = TARGET / "ui" / "screenshots"

# How long a page may take, beside other work on few cores: milliseconds.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)

# Nothing but the pages is fetched.
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]


@pytest.fixture(scope="session")
def fleet():
    with Fleet() as started:
        yield started
        assert not started.trouble()


@pytest.fixture(scope="session")
def browser():
    shutil.rmtree(SCREENSHOTS, ignore_errors=True)
    SCREENSHOTS.mkdir(parents=True)
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        yield chromium
        chromium.close()


class Watched:
    """A page, with what its console and its network said."""

    def __init__(self, page, api):
        self.page, self.api = page, api
        self.problems = []
        page.on("console", lambda said: said.type in ("error", "warning") and self.problems.append(said.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(api) or self.problems.append(asked.url))

    def go(self, path):
        return self.page.goto(self.api + path)

    def sign_in(self, key):
        self.go("/ui/sign-in")
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def view(browser, fleet):
    """Makes a page with a session of its own."""
    contexts = []

    def make(width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        return Watched(context.new_page(), fleet.api)

    yield make
    for context in contexts:
        context.close()
