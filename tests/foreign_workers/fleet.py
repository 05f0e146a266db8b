"""A private database, workers in Python and TypeScript, and the downstream that their stages ask."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import psycopg
import simplejson
from psycopg.rows import DictRow, dict_row

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()
TYPESCRIPT = TARGET / "foreign_workers" / "typescript"
PROGRAMS = TARGET / "debug"
LANGUAGES = ("python", "typescript")
PATIENCE = 30.0


def eventually(holds: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """The first true value of a condition; fails after a time."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.01)
    return value


class Server:
    """A private PostgreSQL with the example's queues and kinds, and an API node, which keeps it running."""

    def __init__(self) -> None:
        # Below /tmp, because under root PostgreSQL runs as another user, which needs access.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-workers-"))
        self.directory.chmod(0o755)
        self.environment = {
            **os.environ, "TIDEGATE_POSTGRES_DIR": str(self.directory / "postgres"), "RUST_LOG": "error",
        }  # fmt: skip
        self.environment.pop("DATABASE_URL", None)
        self.node: subprocess.Popen[str] | None = None
        try:
            made = self.tidegate("migrate")
            self.tidegate("init", "--example", "relayer")
            self.node = subprocess.Popen(
                [PROGRAMS / "tidegate", "serve", "--listen", "127.0.0.1:0", "--webhooks", "0"],
                env=self.environment, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert self.node.stdout and "http://" in self.node.stdout.readline()
            [self.url] = re.findall(r"^database: (\S+)$", made, re.MULTILINE)
            self.database = psycopg.connect(self.url, autocommit=True, row_factory=dict_row)
            # A worker needs this role and no other right.
            self.rows("create role foreign_worker login in role tidegate_worker")
            self.worker_url = re.sub("//tidegate@", "//foreign_worker@", self.url)
            self.rows("update tidegate.queue set per_seconds = null")
        except BaseException:
            self.close()
            raise

    def tidegate(self, *arguments: str) -> str:
        """The output of a command."""
        done = subprocess.run(
            [PROGRAMS / "tidegate", *arguments], env=self.environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"tidegate {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
        if self.node:
            self.node.terminate()
            self.node.wait(PATIENCE)
        # The private server ends by itself after the last connection.
        eventually(lambda: not list(self.directory.glob("postgres/**/postmaster.pid")), "the server has stopped")
        shutil.rmtree(self.directory, ignore_errors=True)

    def rows(self, sql: str, *values: Any) -> list[DictRow]:
        cursor = self.database.execute(sql.encode(), values)
        return cursor.fetchall() if cursor.description else []

    def submit(self, kind: str, payload: Any = None) -> str:
        """The id of a new request."""
        sql = "select id::text from tidegate.submit(%s, %s)"
        return str(self.rows(sql, kind, json.dumps(payload if payload is not None else {}))[0]["id"])

    def request(self, id: str) -> DictRow:
        [row] = self.rows("select *, req_status::text as status from tidegate.request where id = %s", id)
        return row

    def resolution(self, id: str) -> Any:
        """What is known of a request that ended after a send; None: nothing."""
        [row] = self.rows("select tidegate.resolution(r) as known from tidegate.request as r where r.id = %s", id)
        return row["known"]

    def becomes(self, id: str, status: str) -> DictRow:
        """The request, when it has this status."""
        eventually(lambda: self.request(id)["status"] == status, f"{id} is {status}: {self.request(id)}")
        return self.request(id)


def whole(text: str) -> int | Decimal:
    """A whole number: Python reads no `int` of thousands of digits."""
    return int(text) if len(text) <= 640 else Decimal(text)


class Call:
    """A call that a stage has made and that awaits its answer."""

    def __init__(self, handler: socketserver.StreamRequestHandler, fields: dict[str, Any]) -> None:
        # When it began, by the worker's wall clock, which is this one.
        self.handler, self.at = handler, float(fields["at"])
        self.worker, self.step, self.id = str(fields["worker"]), str(fields["step"]), str(fields["id"])
        self.send_id = str(fields["send_id"])
        self.kind, self.attempt, self.payload = fields["kind"], int(fields["attempt"]), fields["payload"]
        self.closed = threading.Event()

    def answer(self, outcome: str | None, **fields: Any) -> None:
        self.handler.wfile.write(simplejson.dumps({"outcome": outcome, **fields}).encode() + b"\n")

    def is_dropped(self, seconds: float = PATIENCE) -> None:
        """Waits until the worker drops the call."""
        assert self.closed.wait(seconds), f"{self.worker} goes on with {self.step} of {self.id}"


class Downstream:
    """Receives the calls of stages; tests answer them."""

    def __init__(self) -> None:
        downstream = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline()
                if line:
                    call = Call(self, simplejson.loads(line, use_decimal=True, parse_int=whole))
                    downstream.receive(call)
                    try:
                        self.rfile.read(1)
                    except OSError:
                        pass
                    call.closed.set()

        class Threads(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 1000

        self.calls: list[Call] = []
        self.automatic: Callable[[Call], None] | None = None
        self.server = Threads(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def receive(self, call: Call) -> None:
        self.calls.append(call)
        if self.automatic:
            self.automatic(call)

    def next(self, id: str, step: str, seconds: float = PATIENCE) -> Call:
        """The next call for a request, which must be of this step."""

        def call() -> Call | None:
            return next((call for call in self.calls if call.id == id), None)

        found: Call = eventually(call, f"{step} of {id}", seconds)
        self.calls.remove(found)
        assert found.step == step, f"{found.step} instead of {step}"
        return found

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Worker:
    """A process of a worker. Without `reads_log`, what it logs and prints goes to a pipe that nobody reads."""

    numbers: Iterator[int] = iter(range(1, 1_000_000))

    def __init__(
        self, server: Server, downstream: Downstream, language: str, options: dict[str, Any], reads_log: bool = True
    ) -> None:
        self.server, self.language = server, language
        self.name = f"{language}-{next(self.numbers)}"
        self.log = server.directory / f"{self.name}.log"
        every = {"name": self.name, "queues": ["readiness", "tx"], "kinds": ["public_decrypt", "direct"]}
        environment = {
            **os.environ, "DATABASE_URL": server.worker_url, "DOWNSTREAM": str(downstream.port),
            "OPTIONS": json.dumps({**every, **options}), "PYTHONPATH": str(ROOT / "workers" / "python"),
            "PYTHONDONTWRITEBYTECODE": "1", "NODE_NO_WARNINGS": "1",
        }  # fmt: skip
        command: Sequence[str] = {
            "python": [sys.executable, str(ROOT / "tests" / "foreign_workers" / "stages.py")],
            "typescript": ["node", str(TYPESCRIPT / "dist" / "stages.js")],
        }[language]
        unread, pipe = os.pipe()
        os.close(unread)
        self.log.touch()
        with open(self.log if reads_log else pipe, "w") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        if reads_log:
            os.close(pipe)

    def works(self) -> Worker:
        """Waits until it has reported that it is alive, and listens."""
        alive = "select 1 from tidegate.worker_overview where name = %s and alive"
        listens = "select 1 from pg_stat_activity where usename = 'foreign_worker' and query ~ '^(listen|select$)'"
        eventually(lambda: self.server.rows(alive, self.name) and self.server.rows(listens), f"{self.name} works")
        return self

    def text(self) -> str:
        return self.log.read_text()

    def writes(self, pattern: str) -> str:
        """Waits for text in its log."""
        found = eventually(lambda: re.search(pattern, self.text()), f"{pattern} in the log of {self.name}")
        return str(found[0])

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        """Waits for its end, and returns its exit status."""
        return self.process.wait(PATIENCE)
