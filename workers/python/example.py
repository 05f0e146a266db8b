"""An example of stages, to copy: checks public_decrypt, and sends it and direct.

DATABASE_URL names the database, by a user with the role tidegate_worker.
"""

import asyncio
import logging
import os

from tidegate_worker import Context, Json, Passed, Receipt, Rejected, Retry, Snooze, Worker

# Stands for the downstream: the requests that it has taken, by `send_id`, which is the idempotency key.
taken: dict[str, Json] = {}


async def check(payload: Json, context: Context) -> Passed | Snooze:
    """Whether the request can run now. A snooze uses no attempt."""
    return Snooze(after=1) if payload.get("ready") is False and context.attempt == 1 else Passed()


async def send(payload: Json, context: Context) -> Receipt | Retry | Rejected:
    """Gives the request to the downstream. It may be called again for the same request, so it must be repeatable."""
    if payload.get("amount", 1) <= 0:
        return Rejected("bad_amount", f"{payload['amount']} is not above zero")
    if payload.get("flaky") and context.attempt == 1:
        # The policy decides when to try again; False, because nothing has been sent.
        return Retry("connect", "no connection", may_have_left=False)
    taken[str(context.send_id)] = {"echo": payload, "attempt": context.attempt}
    # A response that comes later is stored by POST /v1/responses or tidegate.respond.
    return Receipt(reference=f"order-{context.send_id}", response=taken[str(context.send_id)])


async def find_receipt(payload: Json, context: Context) -> Receipt | None:
    """The receipt of an earlier send: asked before every send that may repeat one, and after an end that tells nothing.

    A downstream that will certainly not execute the request gives `Never()`; this one knows only what it has taken.
    """
    found = taken.get(str(context.send_id))
    return Receipt(reference=f"order-{context.send_id}", response=found) if found else None


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("LOG", "INFO"), format="%(levelname)s %(message)s")
    worker = Worker(
        os.environ["DATABASE_URL"],
        queues=["readiness", "tx"],
        checks={"public_decrypt": check},
        sends={"public_decrypt": send, "direct": send},
        receipts={"public_decrypt": find_receipt, "direct": find_receipt},
    )
    asyncio.run(worker.run())
