"""One server for all tests; a downstream and workers for each, after which nothing may be left."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fleet import LANGUAGES, Downstream, Server, Worker

Start = Callable[..., Worker]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    downstream = Downstream()
    yield downstream
    downstream.close()


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def other(language: str) -> str:
    """The other language."""
    return next(name for name in LANGUAGES if name != language)


@pytest.fixture
def start(server: Server, downstream: Downstream) -> Iterator[Start]:
    """Starts workers; the test has to end its requests."""
    workers: list[Worker] = []

    def start(language: str, reads_log: bool = True, **options: Any) -> Worker:
        workers.append(Worker(server, downstream, language, options, reads_log))
        return workers[-1]

    try:
        yield start
    finally:
        for worker in workers:
            worker.signal(signal.SIGKILL)
            worker.ends()
            # Shown when the test has failed.
            print(f"--- {worker.name}\n{worker.text()}")
    ended = "('completed', 'timed_out', 'failure')"
    assert server.rows(f"select id, req_status, error from tidegate.request where req_status not in {ended}") == []
    assert server.rows("select * from tidegate.invariant_violation") == []
