"""A worker: drains queues until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.types.json import Jsonb

from .database import FAILURES, UNAVAILABLE, Database, DatabaseClock
from .outcomes import Check, FindReceipt, Send
from .queue_loop import QueueLoop

log = logging.getLogger("tidegate_worker")


@dataclass
class Worker:
    """Drains queues. Requests of kinds that have no stage here are left to other workers."""

    url: str
    queues: Sequence[str]
    checks: Mapping[str, Check] = field(default_factory=dict)
    sends: Mapping[str, Send] = field(default_factory=dict)
    # Searches for the receipts of earlier sends. Without one, a send that may have left is repeated without asking.
    receipts: Mapping[str, FindReceipt] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}")
    concurrency: int = 20  # calls at once per queue
    # Seconds: the length of a lease; how often an idle queue is claimed from without a notification; how long calls may
    # go on after a stop.
    lease: float = 30.0
    poll: float = 2.0
    grace: float = 20.0
    listen_url: str | None = None  # where to LISTEN, if `url` leads to a pooler in transaction mode

    def __post_init__(self) -> None:
        # An answer that takes half a lease is too late for its claim or its settle.
        self.database = Database(self.url, min(20.0, self.lease / 2))
        self.clock = DatabaseClock()
        self.stopping = asyncio.Event()
        self.loops: dict[str, QueueLoop] = {}

    def stop(self) -> None:
        """Ends claiming. `run` returns when the calls have ended, or were released after `grace`."""
        self.stopping.set()
        for loop in self.loops.values():
            loop.wake.set()

    async def run(self) -> None:
        """Works until `stop`, SIGTERM or SIGINT. Raises if it cannot work: for an unknown queue, or without a right."""
        try:
            self.loops = {queue: QueueLoop(self, queue, *await self._stage_of(queue)) for queue in self.queues}
            await self.clock.read(self.database)
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
            listening, upkeep = asyncio.create_task(self._listen()), asyncio.create_task(self._upkeep())
            running = [asyncio.create_task(loop.run()) for loop in self.loops.values()]
            log.info("worker %s drains %s", self.name, ", ".join(self.queues))
            # The first error stops the other queues, too.
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            self.stop()
            listening.cancel()
            for ended in await asyncio.gather(*running, upkeep, listening, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended
            log.info("worker %s has stopped", self.name)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().remove_signal_handler(number)
            await self.database.close()

    async def respond(self, reference: str, response: Any, part: str | None = None, accept: bool | None = None) -> str:
        """Stores a response that comes later than its receipt. Repeat it until it succeeds."""
        [row] = await self.database.rows(
            "select outcome from tidegate.respond(%(response)s, null, %(reference)s, %(part)s, %(accept)s)",
            response=Jsonb(response), reference=reference, part=part, accept=accept,
        )
        return str(row["outcome"])

    async def stops_within(self, seconds: float) -> bool:
        """Waits, and returns whether the worker is stopping."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), max(seconds, 0))
        return self.stopping.is_set()

    async def _stage_of(self, queue: str) -> tuple[str, list[str]]:
        rows = await self.database.rows(
            """
            select q.stage::text, array(
              select p.kind from tidegate.policy as p where p.stage = q.stage and p.semantics = 'exactly_once'
            ) as exactly_once
            from tidegate.queue as q where q.name = %(queue)s
            """,
            queue=queue,
        )
        if not rows:
            raise ValueError(f'there is no queue "{queue}"; see `select name, stage from tidegate.queue`')
        stage = str(rows[0]["stage"])
        kinds = sorted(self.sends if stage == "tx" else self.checks)
        if not kinds:
            raise ValueError(f'queue "{queue}" needs a {stage} stage, and this worker has none for any kind')
        for kind in set(kinds) & set(rows[0]["exactly_once"] if stage == "tx" else []):
            raise ValueError(
                f'kind "{kind}" has exactly_once semantics, and this worker cannot write an effect with the receipt: '
                "set its semantics to at_least_once, or leave it to another worker"
            )
        return stage, kinds

    async def _listen(self) -> None:
        """Wakes the loops by notifications. These are hints: without them the loops poll."""
        while True:
            try:
                async with await self.database.connect(self.listen_url) as connection:
                    await connection.execute("listen tidegate_queue")
                    for loop in self.loops.values():
                        loop.wake.set()
                    while True:
                        async for notification in connection.notifies(timeout=30):
                            if notification.payload in self.loops:
                                self.loops[notification.payload].wake.set()
                        await asyncio.wait_for(connection.execute("select"), 5)
            except UNAVAILABLE as error:
                log.warning("not listening, polling goes on: %r", error)
            await asyncio.sleep(1)

    async def _upkeep(self) -> None:
        """Reports every ten seconds that the worker is alive, and runs each second the maintenance that is due."""
        seen_at, failing, stopping = -10.0, False, False
        loops = self.loops.values()
        while True:
            try:
                if stopping or time.monotonic() - seen_at >= 10:
                    await self.database.rows(
                        "select tidegate.worker_seen(%(name)s, %(stages)s, %(queues)s, %(stopping)s, %(kinds)s)",
                        limit=2, name=self.name, queues=list(self.loops), stages=sorted({loop.stage for loop in loops}),
                        kinds=sorted({kind for loop in loops for kind in loop.kinds}), stopping=stopping,
                    )
                    seen_at = time.monotonic()
                    await self.clock.read(self.database)
                if not stopping:
                    await self.database.rows("call tidegate.maintain()")
                failing = False
            except FAILURES as error:
                # A warning once, not every second.
                log.log(logging.DEBUG if failing else logging.WARNING, "upkeep failed, and is repeated: %r", error)
                failing = True
            if stopping:
                return
            stopping = await self.stops_within(1)
