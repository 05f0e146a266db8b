"""Nodes and workers on a database, and callers that submit to them."""

import dataclasses
import datetime
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from downstream import BUSY

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute() / "debug"
PATIENCE = 60


class Fleet:
    """Processes on one database: `start_node` and `start_workers` start them, `kill` and `stop` end them."""

    def __init__(self, url, logs):
        self.environment = {**os.environ, "DATABASE_URL": url, "RUST_LOG": "warn"}
        self.logs = logs
        self.processes = []
        self.api = None

    def tidegate(self, *arguments, exits=(0,)):
        """Runs the command, and returns its output."""
        done = subprocess.run(
            [PROGRAMS / "tidegate", *arguments], env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode not in exits:
            sys.exit(f"tidegate {' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def start_node(self):
        self.api = self.start(["tidegate", "serve", "--listen", "127.0.0.1:0"])

    def start_workers(self, downstream, number=2):
        for _ in range(number):
            self.start(
                ["tidegate-worker", "http", "--check-url", f"report={downstream.url}/check/{{kind}}",
                 "--send-url", f"{downstream.url}/send/{{kind}}", "--receipt-url", f"{downstream.url}/receipt/{{kind}}/{{id}}",
                 "--lease", "15s", "--poll", "500ms", "--metrics-listen", "127.0.0.1:0"]
            )

    def start(self, command):
        """Starts a server, and returns the address that it prints."""
        with open(self.logs / f"{command[0]}.log", "a") as log:
            process = subprocess.Popen(
                [PROGRAMS / command[0], *command[1:]], env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.processes.append(process)
        said = re.search(r"http://[^\s/]+", process.stdout.readline())
        if not said:
            sys.exit(f"{' '.join(command)} printed no address: {self.logs}")
        return said[0]

    def kill(self):
        for process in self.processes:
            process.kill()
        self.wait()

    def stop(self):
        for process in self.processes:
            process.terminate()
        self.wait()

    def wait(self):
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []

    def ended(self):
        """Processes that have ended by themselves."""
        return [process.args[0].name for process in self.processes if process.poll() is not None]


@dataclasses.dataclass
class Submission:
    """What a caller has submitted. Times are those of the machine, which the database shares."""

    kind: str
    order: str
    payload: dict
    key: str
    began: float
    answered: float
    id: str


class Callers:
    """Submit to a node as one submitter, and keep a record of what was accepted."""

    def __init__(self, fleet, key):
        self.fleet = fleet
        self.key = key
        self.accepted = []
        self.numbers = itertools.count(1)
        self.stopping = threading.Event()
        self.threads = []

    def call(self, method, path, body=None, key=None, **headers):
        """The status and the body of an answer; a node that is away has the status 0."""
        headers = {"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json", **headers}
        body = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.fleet.api}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)
        except (OSError, ValueError):
            return 0, None

    def submit(self, kind, starts_in=None):
        """Submits an order under a key of its own; returns it if it was accepted.

        The downstream is too busy for every fifth one at first.
        """
        number = next(self.numbers)
        order, headers = f"{kind}-{number}", {}
        busy = {BUSY: True} if number % 5 == 0 else {}
        if starts_in is not None:
            start = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=starts_in)
            headers["Tidegate-Not-Before"] = start.isoformat()
        return self.submit_order(kind, {"order": order, **busy}, f"key-{order}", headers)

    def submit_order(self, kind, payload, key, headers={}):
        began = time.time()
        status, body = self.call("POST", f"/v1/{kind}", payload, **{"Idempotency-Key": key}, **headers)
        if status != 202:
            return None
        submission = Submission(kind, payload["order"], payload, key, began, time.time(), body["job_id"])
        self.accepted.append(submission)
        return submission

    def load(self, kind, at_once, per_second):
        """Submits some orders of a kind at once, and more at a rate, until `stop`."""

        def submits():
            for _ in range(at_once):
                self.submit(kind)
            due = time.monotonic()
            while not self.stopping.wait(max(0.0, due - time.monotonic())):
                self.submit(kind)
                due = max(due + 1 / per_second, time.monotonic() - 1)

        self.threads.append(threading.Thread(target=submits, daemon=True))
        self.threads[-1].start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        self.threads = []
        self.stopping.clear()
