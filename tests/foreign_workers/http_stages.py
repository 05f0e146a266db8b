"""Stages over HTTP for the fault suite, as `tidegate-worker http` has them: OPTIONS has the worker's, its kinds and the
address of the downstream.

With IGNORE_LEASE, first sends ignore that their call is cancelled, and leave when their lease is long over.
"""

import asyncio
import json
import logging
import os
from datetime import datetime, timezone

from tidegate_worker import Context, Json, Never, Passed, Receipt, Rejected, Retry, Snooze, Worker
from tidegate_worker import dumps, loads

OPTIONS = json.loads(os.environ["OPTIONS"])
HOST, PORT = OPTIONS.pop("downstream").split(":")
IGNORES_LEASE, LONG_AFTER = bool(os.environ.get("IGNORE_LEASE")), OPTIONS["lease"] + 7
late: set[asyncio.Task[Receipt | Retry | Rejected]] = set()


async def call(method: str, path: str, payload: Json, context: Context) -> tuple[int, float | None, dict[str, Json]]:
    """The status, the Retry-After and the body of an answer."""
    body = dumps(payload).encode() if method == "POST" else b""
    head = [
        f"{method} {path} HTTP/1.0", f"Idempotency-Key: {context.send_id}", f"Tidegate-Attempt: {context.attempt}",
        f"Tidegate-Began-At: {datetime.now(timezone.utc).isoformat()}",
        "Content-Type: application/json", f"Content-Length: {len(body)}",
    ]  # fmt: skip
    reader, writer = await asyncio.open_connection(HOST, PORT)
    try:
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        answered, _, content = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if not answered:
        raise ConnectionResetError("the connection closed without an answer")
    status, *lines = answered.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    after = float(headers["retry-after"]) if "retry-after" in headers else None
    # Outcomes carry no code of the service's, so that the body of an error is not read.
    return int(status.split()[1]), after, loads(content) if status.split()[1][0] == "2" and content else {}


def is_final(status: int) -> bool:
    """Whether the same request would be refused again."""
    return 400 <= status < 500 and status not in (408, 409, 425, 429)


async def check(payload: Json, context: Context) -> Passed | Snooze | Retry | Rejected:
    try:
        status, after, _ = await call("POST", f"/check/{context.kind}", payload, context)
    except OSError as error:
        return Retry("connection_lost", f"no answer: {error}")
    if status < 300:
        return Passed()
    if is_final(status):
        return Rejected("not_possible", f"the service answered {status}")
    return Retry(f"http_{status}", f"the service answered {status}", after) if status >= 500 else Snooze(after)


async def send(payload: Json, context: Context) -> Receipt | Retry | Rejected:
    try:
        status, after, body = await call("POST", f"/send/{context.kind}", payload, context)
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        return Retry("connect" if refused else "connection_lost", f"no answer: {error}", may_have_left=not refused)
    if status < 300:
        return Receipt(**body)
    if is_final(status):
        return Rejected("rejected", f"the service answered {status}")
    return Retry(f"http_{status}", f"the service answered {status}", after, may_have_left=status not in (425, 429))


async def find(payload: Json, context: Context) -> Receipt | Never | None:
    status, _, body = await call("GET", f"/receipt/{context.kind}/{context.send_id}", payload, context)
    if status not in (200, 202, 404, 410):
        raise RuntimeError(f"the service answered {status}")
    return Receipt(**body) if status < 300 else Never() if status == 410 else None


async def send_late(payload: Json, context: Context) -> Receipt | Retry | Rejected:
    if context.attempt > 1:
        return await send(payload, context)

    async def later() -> Receipt | Retry | Rejected:
        await asyncio.sleep(LONG_AFTER)
        return await send(payload, context)

    late.add(task := asyncio.create_task(later()))
    return await asyncio.shield(task)


logging.basicConfig(format="%(asctime)s %(message)s")
kinds = OPTIONS.pop("kinds")
worker = Worker(
    os.environ["DATABASE_URL"],
    checks={kind: check for kind in kinds},
    sends={kind: send_late if IGNORES_LEASE else send for kind in kinds},
    receipts={kind: find for kind in kinds},
    **OPTIONS,
)
print("working", flush=True)
asyncio.run(worker.run())
