"""A private database, an API node and a worker with a simulated downstream: started for one run, and stopped after."""

import collections
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute() / "debug"
PATIENCE = 60


class Fleet:
    def __enter__(self):
        # Signals end this program through `__exit__`.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(130))
        self.processes = []
        # The API key of calls, once there are keys.
        self.key = None
        # Below /tmp, because under root PostgreSQL runs as another user, which needs access.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-clients-"))
        self.directory.chmod(0o755)
        self.scratch = self.directory / "scratch"
        self.scratch.mkdir()
        self.environment = {
            **os.environ,
            "TIDEGATE_POSTGRES_DIR": str(self.directory / "postgres"),
            "RUST_LOG": os.environ.get("RUST_LOG", "warn"),
        }
        self.environment.pop("DATABASE_URL", None)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        self.tidegate("migrate")
        self.tidegate("init", "--example", "relayer")
        # The fuzzer submits faster than the default rate.
        self.tidegate("config", "set", "tx.per_seconds", "500", "readiness.max_concurrency", "500")
        # Submissions may name this host; nothing is delivered.
        self.tidegate("webhook", "hosts", "add", "hooks.example.com")
        # The fuzzer also waits for requests that start after the test, so waits are short.
        self.api = self.start(
            ["tidegate", "serve", "--listen", "127.0.0.1:0", "--webhooks", "0", "--wait-max", "2", "--stream-time", "2s"],
            r"http://\S+",
        )
        self.start(
            ["tidegate-worker", "simulate", "--metrics-listen", "127.0.0.1:0", "--readiness-latency", "constant:5ms",
             "--send-latency", "constant:5ms", "--response-latency", "constant:50ms"],
            r"http://\S+",
        )

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # The private server ends by itself after the last connection.
        pids = lambda: list(self.directory.glob("postgres/**/postmaster.pid"))
        if not self.eventually(lambda: not pids()):
            for pid in pids():
                os.kill(int(pid.read_text().split()[0]), signal.SIGINT)
            self.eventually(lambda: not pids())
        shutil.rmtree(self.directory, ignore_errors=True)

    def tidegate(self, *arguments, check=True):
        """Runs the command, and returns its output."""
        done = subprocess.run(
            [PROGRAMS / "tidegate", *arguments], env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if check and done.returncode != 0:
            sys.exit(f"tidegate {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def start(self, command, says):
        """Starts a server, and returns the address that it prints."""
        process = subprocess.Popen(
            [PROGRAMS / command[0], *command[1:]], env=self.environment, stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        line = process.stdout.readline()
        said = re.search(says, line)
        if not said:
            sys.exit(f"{' '.join(command)} printed no address: {line!r}")
        return said[0]

    def close_gate(self):
        self.tidegate("gate", "close", "tx")
        if not self.eventually(lambda: self.submits() == 429, 10):
            sys.exit("the gate of the tx queue is closed, but submissions pass")

    def open_gate(self):
        self.tidegate("gate", "release", "tx")

    def submits(self):
        """The status of a submission without an idempotency key."""
        request = self.request("/v1/direct", "POST", {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code

    def live_job(self):
        """The id of a request that starts later than any test."""
        said = self.tidegate("submit", "direct", "--accepted", "--json", "--not-before", self.later())
        return json.loads(said)["job_id"]

    def later(self):
        """A time after the end of any test."""
        return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=30)).isoformat()

    def late_job(self):
        """The id of a request whose response was found after its end: its only send took longer than it may."""
        usual, short = self.settings(), {"direct.tx.timeout_ms": "1", "direct.tx.attempts": "1"}
        self.get("/v1/admin/config", change=short)
        said = self.tidegate("submit", "direct", "--accepted", "--json")
        job = json.loads(said)["job_id"]
        poll = lambda: json.loads(self.get(f"/v1/direct/{job}"))
        if not self.eventually(lambda: poll()["status"] == "failed"):
            sys.exit(f"a send may take 1 ms and be tried once, and the request has not failed: {poll()}")
        # A search has the time of a send.
        self.get("/v1/admin/config", change={name: usual[name] for name in short})
        if not self.eventually(lambda: "resolution" in poll()):
            sys.exit(f"no search has found the response of a request: {poll()}")
        return job

    def request(self, path, method="GET", body=None):
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body).encode()
        return urllib.request.Request(f"{self.api}{path}", headers=headers, data=body, method=method)

    def get(self, path, change=None):
        """The node's answer to a GET, or to a PATCH with this change."""
        request = self.request(path, "GET" if change is None else "PATCH", change)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.code} {error.read().decode()}") from error

    def calls(self):
        """Counts of answered calls, by method and route, then by status."""
        calls = collections.defaultdict(dict)
        sample = r'^tidegate_http_requests_total\{route="(.*?)",method="(.*?)",status="(.*?)"\} (\d+)$'
        for route, method, status, count in re.findall(sample, self.get("/metrics"), re.MULTILINE):
            calls[f"{method} {route}"][int(status)] = int(count)
        return calls

    def refusals(self):
        """The number of submissions that a gate refused."""
        return sum(statuses.get(429, 0) for statuses in self.calls().values())

    def operations(self, belong):
        """The operations of the API's document that belong, by method and route; their tag decides, too."""
        paths = json.loads(self.get("/openapi.json"))["paths"]
        return [
            name
            for path, item in paths.items()
            for method, operation in item.items()
            if belong(name := f"{method.upper()} {path}", operation["tags"][0])
        ]

    def settings(self):
        """Every setting with its value."""
        settings = json.loads(self.get("/v1/admin/config"))["settings"]
        return {setting["name"]: setting["value"] for setting in settings}

    def restore(self, settings):
        """Restores the settings, releases the gates and ends pauses; returns how many settings had changed.

        Quotas have settings, too: those that are left are removed.
        """
        for gate in json.loads(self.tidegate("gate", "--json")):
            for of in ("kind", "submitter"):
                if gate[of] is not None and f"{gate['name']}.high_water" not in settings:
                    self.tidegate("gate", "remove", f"--{of}={gate[of]}")
        changed = json.loads(self.get("/v1/admin/config", change=settings))["changed"]
        for queue in ("readiness", "tx"):
            self.tidegate("gate", "release", queue)
        self.tidegate("resume", "--all")
        for kind in json.loads(self.get("/v1/admin/kinds"))["kinds"]:
            self.tidegate("resume", "--kind", kind["name"])
        return len(changed)

    def use_admin_key(self):
        """Makes a key with the scope `admin`, which calls have from now on."""
        said = self.tidegate("key", "create", "clients", "--scope", "admin", "--json")
        self.key = json.loads(said)["key"]

    def through_a_closed_gate(self, name, command, **options):
        """Runs a client that submits while the gate is closed; the gate opens when the client has been refused."""
        print(f"--- {name}", flush=True)
        self.close_gate()
        refused = self.refusals()

        def open_when_refused():
            if self.eventually(lambda: self.refusals() > refused):
                self.open_gate()

        opening = threading.Thread(target=open_when_refused)
        opening.start()
        client = subprocess.run(command, timeout=120, **options)
        opening.join()
        self.open_gate()
        if client.returncode != 0:
            return f"{name} ended with {client.returncode}"
        if self.refusals() == refused:
            return f"{name} was never refused: the closed gate let it pass"
        return None

    def trouble(self):
        """Processes that ended by themselves."""
        return [
            f"{' '.join(map(str, process.args[:2]))} ended by itself with {process.returncode}"
            for process in self.processes
            if process.poll() is not None
        ]

    @staticmethod
    def eventually(holds, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True
