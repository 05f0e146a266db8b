"""One queue of a worker: claims the requests that can start at once, runs their stages and settles."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import DictRow

from .database import FAILURES, UNAVAILABLE
from .outcomes import Context, Outcome, Receipt, Rejected, Retry
from .settlement import SETTLE, Fate, settle_values

if TYPE_CHECKING:
    from .worker import Worker

log = logging.getLogger("tidegate_worker")

# The pause of an idle queue after its last claim, doubled each time up to the poll interval; and the pause from which
# on the database is asked when the next message becomes visible.
FIRST_PAUSE, ASKED_PAUSE = 0.002, 0.05
# The pause between claims from a queue with a rate: a claim reserves up to 100 ms.
PACED_PAUSE = 0.025
# A send that is later than this for its slot would come too close to the sends of the next slots.
LATE = 0.05


class Call:
    """A claimed request on its way through its stage."""

    def __init__(self, row: DictRow, lease_for: float, asked_at: float) -> None:
        self.lease, self.payload = str(row["lease"]), row["payload"]
        # By the clock of this process, from before the claim: never longer than by the database's.
        self.began_at, self.until = asked_at, asked_at + lease_for
        self.context = Context(
            row["id"], row["kind"], row["attempt"], row["attempts_max"], row["deadline_at"], row["submitter"],
            row["timeout_ms"] / 1000,
        )
        self.fate, self.is_sending = Fate.LOST, False
        self.took_ms: int | None = None
        self.task: asyncio.Task[Outcome | Fate]

    def drop(self, fate: Fate) -> None:
        """Cancels the stage, if it still runs."""
        if not self.task.done() and not self.context.cancelled.is_set():
            self.fate = fate
            self.context.cancelled.set()
            self.task.cancel()


class QueueLoop:
    """One queue of a worker."""

    def __init__(self, worker: Worker, name: str, stage: str, kinds: list[str]) -> None:
        self.worker, self.name, self.stage, self.kinds = worker, name, stage, kinds
        self.rows, self.clock, self.wake = worker.database.rows, worker.clock, asyncio.Event()
        self.calls: dict[str, Call] = {}
        self.settling: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Claims until the worker stops, and waits for the calls."""
        keeping = asyncio.create_task(self._keep_leases())
        try:
            await self._claim_until_stopped()
        finally:
            if self.settling:
                await asyncio.wait(self.settling, timeout=self.worker.grace)
            for call in self.calls.values():
                call.drop(Fate.CUT_OFF if call.is_sending else Fate.RELEASED)
            await asyncio.gather(*self.settling)
            keeping.cancel()

    async def _claim_until_stopped(self) -> None:
        """Claims as many requests as can start at once, as soon as there are any.

        The pauses of an idle queue are short after a claim, then longer: a submission wakes workers only when it finds
        its queue empty, and of two concurrent ones the second finds the first.
        """
        longest, pause = self.worker.poll, FIRST_PAUSE
        while not self.worker.stopping.is_set():
            self.wake.clear()
            free = self.worker.concurrency - len(self.calls)
            try:
                if claimed := await self._claim(free) if free else []:
                    wait, pause = (PACED_PAUSE, PACED_PAUSE) if claimed[0]["paced"] else (0.0, FIRST_PAUSE)
                elif free:
                    sql = "select tidegate.claim_wait_ms(%(queue)s, %(kinds)s) / 1000.0::float8 as seconds"
                    asked = await self.rows(sql, queue=self.name, kinds=self.kinds) if pause >= ASKED_PAUSE else []
                    wait = min(max(FIRST_PAUSE, *(row["seconds"] for row in asked)), pause) if asked else pause
                    pause = min(2 * pause, longest)
                    log.debug("queue %s: nothing to claim, waiting %.3f s", self.name, wait)
                else:
                    wait = longest
            except psycopg.errors.InsufficientPrivilege:
                # A missing right does not come back by waiting.
                raise
            except FAILURES as error:
                wait, pause = max(pause, 0.1), min(max(2 * pause, 0.2), max(longest, 0.1))
                log.warning("queue %s: cannot claim, again in %.1f s: %r", self.name, wait, error)
            if wait:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.wake.wait(), wait)
                    pause = FIRST_PAUSE

    async def _claim(self, count: int) -> list[DictRow]:
        """Claims requests, and starts a call for each."""
        asked_at = time.monotonic()
        claimed = await self.rows(
            f"""
            select
              lease::text, id, kind, payload, attempt, attempts_max, deadline_at, submitter, timeout_ms, paced,
              extract(epoch from claimed_at)::float8 as claimed_at,
              extract(epoch from send_at - claimed_at)::float8 as start_in
            from tidegate.claim_{self.stage}(%(queue)s, %(worker)s, %(count)s, %(lease_for)s, %(kinds)s)
            """,
            queue=self.name, worker=self.worker.name, count=count, kinds=self.kinds,
            lease_for=timedelta(seconds=self.worker.lease),
        )
        for row in claimed:
            call = self.calls[row["lease"]] = Call(row, self.worker.lease, asked_at)
            start = self.clock.start(row["claimed_at"], row["start_in"], asked_at) if row["paced"] else None
            call.task = asyncio.create_task(self._outcome(call, start))
            settling = asyncio.create_task(self._settle(call))
            self.settling.add(settling)
            settling.add_done_callback(self.settling.discard)
        return claimed

    async def _keep_leases(self) -> None:
        """Extends the leases of calls, and drops the calls whose lease is lost."""
        lease = self.worker.lease
        while True:
            await asyncio.sleep(min(1.0, lease / 10))
            now = time.monotonic()
            ageing = [call for call in self.calls.values() if call.until - now < lease * 2 / 3]
            await self._confirm(ageing, "extend(%(leases)s::text[]::tidegate.lease[], %(lease_for)s)", lease)
            # A request that was cancelled or has ended has lost its lease.
            long = [call for call in self.calls.values() if call not in ageing and now - call.began_at >= 1]
            await self._confirm(long, "still_held(%(leases)s::text[]::tidegate.lease[])", None)
            for call in self.calls.values():
                if not self._holds(call):
                    call.drop(Fate.LOST)

    async def _confirm(self, calls: list[Call], function: str, lease: float | None) -> None:
        if not calls:
            return
        asked_at = time.monotonic()
        try:
            # A database that stalls must not delay the drop of lost calls.
            rows = await self.rows(
                f"select l::text as lease from tidegate.{function} as l", limit=self.worker.lease / 15,
                leases=[call.lease for call in calls], lease_for=timedelta(seconds=self.worker.lease),
            )
        except FAILURES as error:
            log.warning("queue %s: failed to extend or to check leases: %r", self.name, error)
            return
        held = {row["lease"] for row in rows}
        for call in calls:
            if call.lease not in held:
                call.until = asked_at
            elif lease is not None:
                call.until = asked_at + lease

    def _holds(self, call: Call) -> bool:
        """Whether its lease holds, with a margin: the period of extensions and their time limit."""
        return time.monotonic() < call.until - self.worker.lease / 6

    async def _outcome(self, call: Call, start: float | None) -> Outcome | Fate:
        """Runs the stage of a request."""
        context, worker = call.context, self.worker
        if worker.stopping.is_set():
            return Fate.RELEASED
        if self.stage == "readiness":
            checked: Outcome = await self._bounded(call, worker.checks[context.kind], False)
            return checked
        if context.attempt > 1:
            # An earlier send may have succeeded, and its worker may have been lost before the settle.
            if find := worker.receipts.get(context.kind):
                found: Outcome | None = await self._bounded(call, find, False)
                if found is not None:
                    return found
            if context.attempt > context.attempts_max:
                return Retry("attempts_exhausted", "the worker of the last send was lost, and its receipt is not known")
            if start is not None and find:
                # The search may have taken longer than until its slot.
                start = await self._reserve()
        if start is not None:
            await worker.stops_within(start - time.monotonic())
            if worker.stopping.is_set() or time.monotonic() - start > LATE:
                return Fate.RELEASED
        return await self._bounded(call, worker.sends[context.kind], True) if self._holds(call) else Fate.LOST

    async def _bounded(self, call: Call, stage: Callable[[Any, Context], Awaitable[Any]], is_send: bool) -> Any:
        """Calls a stage, no longer than the policy allows."""
        context, began_at = call.context, time.monotonic()
        call.is_sending = is_send
        try:
            outcome = await asyncio.wait_for(stage(call.payload, context), context.timeout)
            is_search = self.stage == "tx" and not is_send
            if type(outcome) in SETTLE[self.stage] or is_search and outcome is None:
                return outcome
            code, message = "stage_raised", f"the stage returned {outcome!r}"
        except asyncio.TimeoutError:
            context.cancelled.set()
            code, message = "timeout", f"the stage took longer than {context.timeout} s"
        except Exception as error:
            code, message = "stage_raised", f"the stage raised {error!r}"
        finally:
            call.took_ms = round((time.monotonic() - began_at) * 1000)
        log.warning("request %s: %s", context.id, message)
        return Retry(code, message, may_have_left=is_send)

    async def _reserve(self) -> float:
        """Takes one more slot of the queue's rate; in the past, if there is none."""
        while not self.worker.stopping.is_set():
            asked_at = time.monotonic()
            try:
                [slot] = await self.rows(
                    "select extract(epoch from reserved_at)::float8 as reserved_at, wait_ms / 1000.0::float8 as wait, "
                    "extract(epoch from send_in)::float8 as start_in from tidegate.reserve_send(%(queue)s)",
                    queue=self.name,
                )
            except FAILURES:
                break
            if slot["start_in"] is not None:
                return self.clock.start(slot["reserved_at"], slot["start_in"], asked_at)
            await self.worker.stops_within(slot["wait"])
        return -1.0

    async def _settle(self, call: Call) -> None:
        """Waits for the outcome of a call and settles it."""
        try:
            try:
                outcome = await call.task
            except asyncio.CancelledError:
                outcome = call.fate
            await self._store(call, outcome)
        except Exception as error:
            # The request is rescued when its lease has run out.
            log.error("request %s: cannot settle its outcome: %r", call.context.id, error)
        # An ended check also frees a place of its queue's concurrency limit.
        if len(self.calls) >= self.worker.concurrency or self.stage == "readiness":
            self.wake.set()
        del self.calls[call.lease]

    async def _store(self, call: Call, outcome: Outcome | Fate) -> None:
        """Settles, repeatedly while the database is unavailable and the lease holds."""
        pause, moved = 0.05, None
        while outcome is not Fate.LOST and moved is None:
            function = outcome.value if isinstance(outcome, Fate) else SETTLE[self.stage][type(outcome)]
            try:
                values = settle_values(call.lease, outcome, call.took_ms)
                moved = await self.rows(f"select * from tidegate.{function}", **values)
            except UNAVAILABLE as error:
                if not self._holds(call):
                    raise
                log.warning("request %s: cannot settle yet: %r", call.context.id, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
            except Exception as error:
                if not isinstance(outcome, Receipt):
                    raise
                message = f"the downstream took it, but its answer cannot be stored: {error}"
                outcome = Rejected("unstorable_response", message)
        if not moved:
            # Another worker has the request, or it was cancelled or has ended.
            log.warning("request %s: the lease is lost, %r is discarded", call.context.id, outcome)
            return
        wake = {row["queue"] for row in moved if row.get("wake")}
        if isinstance(outcome, Fate) and self.worker.stopping.is_set():
            wake.add(self.name)
        for queue in wake:
            with contextlib.suppress(*UNAVAILABLE):
                await self.rows("select tidegate.wake(%(queue)s)", queue=queue)
