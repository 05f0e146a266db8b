"""A downstream that keeps a record of each call: it executes every send that it gets, and finds receipts by their ids.

It also takes the webhooks. Its reports come later: it posts each as a response, until Tidegate has taken it.
"""

import collections
import contextlib
import copy
import dataclasses
import http.server
import json
import threading
import time
import urllib.error
import urllib.request

# How long a check, a send, and a report after its send take, in seconds.
CHECK, SEND, REPORT = 0.15, 0.25, 1.5
# The kind whose orders it recognises by the payload, whatever the id of the send.
RECOGNISED = "report"
# The member of a payload for which it is too busy at the first send, and when it asks for the next one, in seconds.
BUSY, AGAIN = "busy", 3


@dataclasses.dataclass
class Execution:
    at: float
    kind: str
    id: str
    order: str


@dataclasses.dataclass
class Response:
    """A report that is posted; `status` and `outcome` are what Tidegate has answered, once it has taken or refused it."""

    id: str
    due: float
    taken: float | None = None
    status: int | None = None
    outcome: str | None = None


@dataclasses.dataclass
class Record:
    executions: list = dataclasses.field(default_factory=list)
    lookups: list = dataclasses.field(default_factory=list)
    responses: list = dataclasses.field(default_factory=list)
    webhooks: list = dataclasses.field(default_factory=list)
    # The receipt of each id, the first id of each recognised order, the ids that were refused once.
    receipts: dict = dataclasses.field(default_factory=dict)
    orders: dict = dataclasses.field(default_factory=dict)
    refused: set = dataclasses.field(default_factory=set)
    repeated_orders: int = 0
    # Calls of workers and nodes, of every sort.
    calls: int = 0

    def sends(self, name="id"):
        """How often each id, or each order, was executed."""
        return collections.Counter(getattr(execution, name) for execution in self.executions)


class Downstream:
    def __init__(self, record=None):
        self.record = record or Record()
        self.lock = threading.Lock()
        # Where reports are posted to, and with which API key; None: nowhere, they wait.
        self.api = self.key = None
        self.takes_webhooks = True
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *call: Calls(self, *call))
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.address}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        threading.Thread(target=self.post_reports, daemon=True).start()

    def copy(self):
        """Another one, with what this one has on record."""
        with self.lock:
            return Downstream(copy.deepcopy(self.record))

    def snapshot(self):
        with self.lock:
            return copy.deepcopy(self.record)

    def check(self):
        time.sleep(CHECK)
        return 200, {}

    def send(self, kind, id, payload):
        order = payload["order"]
        with self.lock:
            if payload.get(BUSY) and id not in self.record.refused:
                self.record.refused.add(id)
                return 503, {}
            if kind == RECOGNISED and order in self.record.orders:
                self.record.repeated_orders += 1
                self.record.receipts[id] = {"reference": f"report-{id}"}
                self.record.responses.append(Response(id, time.time() + REPORT))
                return 200, self.record.receipts[id]
        time.sleep(SEND)
        with self.lock:
            now = time.time()
            self.record.executions.append(Execution(now, kind, id, order))
            if kind == RECOGNISED:
                self.record.orders[order] = id
                self.record.receipts[id] = {"reference": f"report-{id}"}
                self.record.responses.append(Response(id, now + REPORT))
            else:
                self.record.receipts[id] = {"order": order, "executed_as": id}
            return 200, self.record.receipts[id]

    def receipt(self, id):
        with self.lock:
            found = self.record.receipts.get(id)
            self.record.lookups.append((time.time(), id, found is not None))
        return (404, {}) if found is None else (200, found)

    def webhook(self, id, job):
        with self.lock:
            if self.takes_webhooks:
                self.record.webhooks.append((time.time(), id, job))
        return (200 if self.takes_webhooks else 503), {}

    def called(self):
        with self.lock:
            self.record.calls += 1

    def post_reports(self):
        while True:
            with self.lock:
                due = [one for one in self.record.responses if one.status is None and one.due < time.time()]
            for response in due if self.api else []:
                self.post(response)
            time.sleep(0.1)

    def post(self, response):
        """Posts a report, half of them by reference and half by job id."""
        # The last digit of an id is random.
        name = {"reference": f"report-{response.id}"} if int(response.id[-1], 16) % 2 else {"job_id": response.id}
        request = urllib.request.Request(
            f"{self.api}/v1/responses", json.dumps({**name, "response": {"report": response.id}}).encode(),
            {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                status, outcome = answer.status, json.load(answer)["outcome"]
        except urllib.error.HTTPError as refusal:
            if refusal.code != 404:
                return
            status, outcome = 404, json.load(refusal)["code"]
        except OSError:
            return
        with self.lock:
            response.taken, response.status, response.outcome = time.time(), status, outcome

    def post_again(self, since):
        """Posts the reports again that Tidegate has taken since a moment; returns them."""
        with self.lock:
            again = [one for one in self.record.responses if one.taken and one.taken >= since]
            for response in again:
                response.taken = response.status = response.outcome = None
        return again


class Calls(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def __init__(self, downstream, *call):
        self.downstream = downstream
        super().__init__(*call)

    def handle(self):
        # A worker that is killed closes its connections at any moment.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match self.path.strip("/").split("/"):
            case ["check", _]:
                self.downstream.called()
                answer = self.downstream.check()
            case ["send", kind]:
                self.downstream.called()
                answer = self.downstream.send(kind, self.headers["Idempotency-Key"], body)
            case ["webhook"]:
                self.downstream.called()
                answer = self.downstream.webhook(self.headers["webhook-id"], body["job_id"])
            case _:
                answer = 404, {}
        self.answer(*answer)

    def do_GET(self):
        match self.path.strip("/").split("/"):
            case ["receipt", _, id]:
                self.downstream.called()
                self.answer(*self.downstream.receipt(id))
            case _:
                self.answer(404, {})

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", str(AGAIN))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
