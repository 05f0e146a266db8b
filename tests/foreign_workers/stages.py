"""Stages that ask the test for each outcome: a JSON line over a TCP connection, and a line back."""

import asyncio
import json
import logging
import os
import time
from typing import Any

from tidegate_worker import Context, Json, Never, Passed, Receipt, Rejected, Retry, Snooze, Worker, dumps, loads

OUTCOMES = {
    "passed": Passed, "snoozed": Snooze, "receipt": Receipt, "rejected": Rejected, "retry": Retry,
    "never": Never,
}  # fmt: skip
OPTIONS = json.loads(os.environ["OPTIONS"])


async def ask(step: str, payload: Json, context: Context) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["DOWNSTREAM"]))
    try:
        call = {
            "worker": OPTIONS["name"], "step": step, "id": str(context.id), "kind": context.kind, "payload": payload,
            "send_id": str(context.send_id), "attempt": context.attempt, "at": time.time(),
        }
        writer.write(dumps(call).encode() + b"\n")
        answer = loads(await reader.readline())
    finally:
        writer.close()
    outcome = answer.pop("outcome")
    if outcome == "raise":
        raise RuntimeError("the stage fails")
    return OUTCOMES[outcome](**answer) if outcome else None


async def check(payload: Json, context: Context) -> Passed | Snooze | Retry | Rejected:
    outcome: Passed | Snooze | Retry | Rejected = await ask("check", payload, context)
    return outcome


async def send(payload: Json, context: Context) -> Receipt | Retry | Rejected:
    outcome: Receipt | Retry | Rejected = await ask("send", payload, context)
    return outcome


async def find(payload: Json, context: Context) -> Receipt | Never | None:
    outcome: Receipt | Never | None = await ask("find", payload, context)
    return outcome


logging.basicConfig(level="DEBUG", format="%(message)s")
kinds = OPTIONS.pop("kinds")
worker = Worker(
    os.environ["DATABASE_URL"],
    checks={kind: check for kind in kinds},
    sends={kind: send for kind in kinds},
    receipts={kind: find for kind in kinds},
    **OPTIONS,
)
asyncio.run(worker.run())
