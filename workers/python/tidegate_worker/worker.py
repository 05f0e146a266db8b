"""A worker: drains queues until it is stopped. `docs/workers.md` has the contract that it keeps."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import itertools
import logging
import math
import re
import secrets
import signal
import socket
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, ClassVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from .json import dumps, loads
from .outcomes import Check, Context, FindReceipt, Json, Never, Outcome, Passed, Receipt, Rejected, Retry, Send, Snooze

log = logging.getLogger("tidegate_worker")
# Errors after which the same statement may succeed later (InternalError: it takes no writes); and all of statements.
UNAVAILABLE, FAILURES = (psycopg.OperationalError, psycopg.InternalError, OSError), (psycopg.Error, OSError)
# Operational errors, too, but of the values: these are too large, or nested too deep.
TOO_LARGE = (psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)
# Seconds: the first pause of an idle queue, doubled up to the poll interval; and how late for its slot a send may be.
FIRST_PAUSE, LATE = 0.002, 0.05
# How many searches run at once for the receipts of requests that have ended.
SEARCHES = 16
# Seconds: how long an exception of a stage, by its type and line, is logged without its traceback after it was with it.
TOLD_AGAIN = 300.0

LEASE = "array[%(lease)s::tidegate.lease]"
SETTLE = (
    f"settle({LEASE}, array[%(word)s], array[%(error)s::jsonb], array[make_interval(secs => %(after)s)],"
    " array[%(may_have_left)s::boolean], array[%(reference)s::text], array[%(response)s::jsonb], array[%(took_ms)s::integer])"
)
# What a stage may return, besides what a search for a receipt does.
OUTCOMES = {"readiness": Passed | Snooze | Retry | Rejected, "tx": Receipt | Retry | Rejected}
# The end of a claim whose send may have left: the lease ends at once, and the next claim rescues the request, with a search
# for its receipt.
CUT_OFF = f"extend({LEASE}, '10 ms')"


@dataclass(frozen=True)
class Released:
    """The call has not begun, or has no effect, as a check."""

    word: ClassVar[str] = "released"


@dataclass(eq=False)
class Queue:
    """A queue that is drained."""

    name: str
    stage: str
    kinds: list[str]
    claiming: asyncio.Lock = field(default_factory=asyncio.Lock)
    wake: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False, kw_only=True)
class Call(Context):
    """A claimed request on its way through its stage."""

    queue: Queue
    payload: str  # as JSON text
    lease: str
    until: float  # the end of the lease, by the clock of this process
    send_at: float | None  # by the database's clock, in a queue with a rate
    is_sending: bool = False
    took_ms: int | None = None

    @property
    def may_be_repeated(self) -> bool:
        """Whether an earlier send, of this request or of the one that it repeats, may have succeeded."""
        return self.attempt > 1 or self.send_id != self.id


@dataclass
class Worker:
    """Drains queues. Requests of kinds that have no stage here are left to other workers."""

    url: str
    queues: Sequence[str]
    checks: Mapping[str, Check] = field(default_factory=dict)
    sends: Mapping[str, Send] = field(default_factory=dict)
    # Searches for the receipts of earlier sends. Without one, a send that may have left is repeated without asking, and
    # nothing is found out about a request that has ended.
    receipts: Mapping[str, FindReceipt] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{secrets.token_hex(4)}")
    concurrency: int = 20  # calls at once per queue
    lease: float = 30.0  # seconds, as the next two
    poll: float = 2.0  # how often an idle queue is claimed from without a notification
    grace: float = 20.0  # how long calls may go on after a stop
    listen_url: str | None = None  # where to LISTEN, if `url` leads to a pooler in transaction mode

    def __post_init__(self) -> None:
        self._drained, self._helpers = dict[str, Queue](), list[asyncio.Task[None]]()
        self._stopping, self._cut_off_at = asyncio.Event(), math.inf
        self._told = dict[tuple[type[Exception], str, int | None], float]()
        self._idle, self._places = list[psycopg.AsyncConnection[DictRow]](), asyncio.Semaphore(4)

    def stop(self) -> None:
        """Ends claiming. `run` returns when the calls have ended, or were released after `grace`."""
        self._stopping.set()
        self._cut_off_at = min(self._cut_off_at, monotonic() + self.grace)
        for queue in self._drained.values():
            queue.wake.set()
        for helper in self._helpers:
            helper.cancel()

    async def run(self) -> None:
        """Works until `stop`, SIGTERM or SIGINT. Raises for an unknown queue or kind, or without a right."""
        loop, signals = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
        try:
            await self._check_kinds()
            self._drained = {name: await self._queue(name) for name in self.queues}
            for number in signals:
                loop.add_signal_handler(number, self.stop)
            log.info("worker %s drains %s", self.name, ", ".join(self.queues))
            await self._report()
            self._helpers = [asyncio.create_task(self._listen()), asyncio.create_task(self._search())]
            drains = [self._drain(queue) for queue in self._drained.values() for _ in range(self.concurrency)]
            ends = await asyncio.gather(self._upkeep(), *drains, return_exceptions=True)
            for error in filter(None, ends):
                raise error
            log.info("worker %s has stopped", self.name)
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
            for helper in self._helpers:
                helper.cancel()
            for connection in self._idle:
                await connection.close()

    async def rows(self, sql: str, limit: float = math.inf, **values: Any) -> list[DictRow]:
        """The rows of a statement, which is a transaction of its own; a TimeoutError after `limit` seconds."""
        # An answer that takes half a lease is too late for its claim or its settle.
        async with asyncio.timeout(min(limit, 20, self.lease / 2)), self._places:
            connection = self._idle.pop() if self._idle else await self._connect(self.url)
            try:
                cursor = await connection.execute(sql.encode(), values)
                rows = await cursor.fetchall() if cursor.description else []
            except BaseException:
                await connection.close()
                raise
            self._idle.append(connection)
            return rows

    async def _connect(self, url: str) -> psycopg.AsyncConnection[DictRow]:
        # Claims and extensions are durable before a call begins. Nothing is prepared, so that any pooler will do.
        url = make_conninfo(url, options="-c synchronous_commit=on", tcp_user_timeout=20_000)
        return await psycopg.AsyncConnection.connect(url, autocommit=True, row_factory=dict_row, prepare_threshold=None)

    async def _check_kinds(self) -> None:
        """Refuses a stage for a kind that is not registered: it would never be called."""
        known = [row["name"] for row in await self.rows("select name from tidegate.kind order by name")]
        for kind in sorted({*self.checks, *self.sends, *self.receipts} - set(known)):
            near = difflib.get_close_matches(kind, known)
            there_are = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known) or 'none'}"
            raise ValueError(f'kind "{kind}" is not registered: {there_are}')

    async def _queue(self, name: str) -> Queue:
        for row in await self.rows(
            "select stage::text, array(select kind from tidegate.policy where stage = 'tx' and"
            " semantics = 'exactly_once') as exactly_once from tidegate.queue where name = %(name)s", name=name,
        ):
            for kind in set(self.sends) & set(row["exactly_once"]):
                raise ValueError(f'kind "{kind}" has exactly_once semantics: leave it to a worker that writes effects')
            return Queue(name, row["stage"], list(self.checks if row["stage"] == "readiness" else self.sends))
        raise ValueError(f'there is no queue "{name}"; see `select name, stage from tidegate.queue`')

    async def _drain(self, queue: Queue) -> None:
        """Claims a request and serves it, again and again. This runs once for each call allowed at a time; one claims."""
        while not self._stopping.is_set():
            async with queue.claiming:
                call = await self._claim(queue)
            if call:
                await self._serve(call)

    async def _claim(self, queue: Queue) -> Call | None:
        """Claims a request as soon as there is one; None when the worker stops.

        The pauses begin short: of two concurrent submissions to an empty queue, the second notifies no worker.
        """
        pause = FIRST_PAUSE
        values: dict[str, Any] = {"queue": queue.name, "kinds": queue.kinds, "worker": self.name, "lease": self.lease}
        while not self._stopping.is_set():
            queue.wake.clear()
            # Counted from before the claim, a lease lasts no longer than by the database's clock.
            until = monotonic() + self.lease
            try:
                for row in await self.rows(
                    "select id, coalesce(send_id, id) as send_id, kind, payload::text, attempt, attempts_max,"
                    " deadline_at as deadline, submitter, lease::text, timeout_ms / 1000.0::float8 as timeout,"
                    " case when paced then extract(epoch from send_at)::float8 end as send_at, traceparent,"
                    " coalesce(begins_trace, false) as begins_trace"
                    f" from tidegate.claim_{queue.stage}"
                    "(%(queue)s, %(worker)s, 1, make_interval(secs => %(lease)s), %(kinds)s)", **values,
                ):
                    return Call(queue=queue, until=until, **row)
                [row] = await self.rows("select tidegate.claim_wait_ms(%(queue)s, %(kinds)s) as ms", **values)
                wait = min(max(row["ms"] / 1000, FIRST_PAUSE), pause)
                log.debug("queue %s: nothing to claim, waiting %.3f s", queue.name, wait)
            except psycopg.errors.InsufficientPrivilege:
                # A missing right does not come back by waiting.
                self.stop()
                raise
            except FAILURES as error:
                wait = max(pause, 0.1)
                log.warning("queue %s: cannot claim, again in %.1f s: %r", queue.name, wait, error)
            pause = FIRST_PAUSE if await is_set_within(queue.wake, wait) else min(2 * pause, self.poll)
        return None

    async def _serve(self, call: Call) -> None:
        """Runs the stage of a request, keeps its lease meanwhile, and settles."""
        running, keeping = asyncio.create_task(self._outcome(call)), asyncio.create_task(asyncio.sleep(0))
        while not (await asyncio.wait({running}, timeout=min(1, self.lease / 10)))[0]:
            if not self._holds(call) or monotonic() > self._cut_off_at:
                if not call.cancelled.is_set():
                    call.cancelled.set()
                    running.cancel()
            elif keeping.done():
                # Not awaited: a database that does not answer must not delay the end of a call whose lease is lost.
                keeping = asyncio.create_task(self._keep(call))
        outcome = CUT_OFF if call.is_sending else Released()
        try:
            if not running.cancelled():
                outcome = running.result()
        except Exception as error:
            log.warning("request %s: not sent: %r", call.id, error)
        try:
            await self._settle(call, outcome)
        except Exception as error:
            # The request is rescued when its lease has run out.
            log.error("request %s: cannot settle its outcome: %r", call.id, error)
        if call.queue.stage == "readiness":
            # An ended check frees a place of its queue's concurrency limit.
            call.queue.wake.set()

    def _holds(self, call: Call) -> bool:
        """Whether its lease holds, with a margin."""
        return monotonic() < call.until - self.lease / 5

    async def _keep(self, call: Call) -> None:
        """Extends the lease when a third of it is used; otherwise reads whether its request was cancelled, or ended."""
        asked_at = monotonic()
        extends = call.until - asked_at < self.lease * 2 / 3
        function = f"extend({LEASE}, make_interval(secs => %(time)s))" if extends else f"still_held({LEASE})"
        try:
            values = {"lease": call.lease, "time": self.lease}
            held = await self.rows(f"select 1 from tidegate.{function}", self.lease / 15, **values)
            call.until = asked_at if not held else asked_at + self.lease if extends else call.until
        except FAILURES as error:
            log.warning("request %s: failed to extend or to check its lease: %r", call.id, error)

    async def _outcome(self, call: Call) -> Any:
        """The outcome of a request's stage, or the statement that ends the claim without one."""
        if self._stopping.is_set():
            return Released()
        is_check = call.queue.stage == "readiness"
        try:
            payload = loads(call.payload)
        except (ValueError, RecursionError) as error:
            # Nested too deep for this program.
            return Rejected("invalid_payload", f"the payload cannot be read: {type(error).__name__}")
        if is_check:
            return await self._bounded(call, payload, self.checks[call.kind])
        if call.may_be_repeated:
            # An earlier send may have succeeded, and its worker may have been lost before the settle.
            find = self.receipts.get(call.kind)
            if find and (found := await self._bounded(call, payload, find)):
                return found
            if call.attempt > call.attempts_max:
                return Retry("attempts_exhausted", "the worker of the last send was lost, and its receipt is not known")
        return await self._bounded(call, payload, self.sends[call.kind], True) if await self._has_slot(call) else Released()

    async def _has_slot(self, call: Call) -> bool:
        """Waits until a send may start. One that is late for its slot is released, or after a search takes another."""
        while call.send_at is not None:
            # By an answer that is fast: that of the claim may have been delayed.
            [row] = await self.rows("select extract(epoch from tidegate.clock())::float8 as now")
            start = monotonic() + call.send_at - row["now"]
            if await is_set_within(self._stopping, start - monotonic()):
                return False
            if monotonic() - start <= LATE:
                break
            if not call.may_be_repeated:
                return False
            [row] = await self.rows(
                "select extract(epoch from reserved_at + send_in)::float8 as send_at, wait_ms / 1000.0::float8 as wait"
                " from tidegate.reserve_send(%(queue)s)", queue=call.queue.name,
            )
            call.send_at = call.send_at if row["send_at"] is None else row["send_at"]
            await is_set_within(self._stopping, row["wait"])
        return self._holds(call)

    async def _bounded(
        self, call: Call, payload: Json, stage: Callable[[Any, Context], Awaitable[Any]], is_send: bool = False
    ) -> Any:
        """Calls a stage, no longer than the policy allows."""
        began_at, code, call.is_sending = monotonic(), "stage_raised", is_send
        try:
            async with asyncio.timeout(call.timeout):
                outcome = await stage(payload, call)
            if isinstance(outcome, Never | None) and stage in self.receipts.values():
                return None
            if isinstance(outcome, OUTCOMES[call.queue.stage]):
                return outcome
            message = f"the stage returned {outcome!r}"
        except TimeoutError:
            call.cancelled.set()
            code, message = "timeout", f"the stage took longer than {call.timeout} s"
        except Exception as error:
            message = f"the stage raised {error!r}"
            self._tell(call, error)
        finally:
            call.took_ms = round((monotonic() - began_at) * 1000)
        log.warning("request %s: %s", call.id, message)
        return Retry(code, message, may_have_left=is_send)

    def _tell(self, context: Context, error: Exception) -> None:
        """Logs the traceback of an exception that a stage has raised, which may be a bug, from time to time."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        place, now = (type(error), last.filename, last.lineno), monotonic()
        if now < self._told.get(place, -math.inf) + TOLD_AGAIN:
            return
        self._told[place] = now
        log.error(
            "a stage of kind %s raised an exception, which is retried like any failure (attempt %s of %s, request %s): for"
            " a request that cannot succeed, return Rejected",
            context.kind, context.attempt, context.attempts_max, context.id, exc_info=error,
        )  # fmt: skip

    async def _settle(self, call: Call, outcome: Outcome | Released | str) -> None:
        """Settles, repeatedly while the database is unavailable and the lease holds."""
        moved = None
        while moved is None:
            function = outcome if isinstance(outcome, str) else SETTLE
            try:
                values = {"lease": call.lease, "took_ms": call.took_ms, **settle_values(outcome)}
                moved = await self.rows(f"select * from tidegate.{function}", **values)
            except Exception as error:
                if isinstance(error, UNAVAILABLE) and not isinstance(error, TOO_LARGE):
                    if not self._holds(call):
                        raise
                    log.warning("request %s: cannot settle yet: %r", call.id, error)
                    await asyncio.sleep(0.5)
                elif isinstance(outcome, Receipt):
                    message = f"the downstream took it, but its answer cannot be stored: {error}"
                    outcome = Rejected("unstorable_response", message)
                else:
                    raise
        if not moved:
            # Another worker has the request, or it was cancelled or has ended.
            log.warning("request %s: the lease is lost, %r is discarded", call.id, outcome)
        elif self._stopping.is_set() and isinstance(outcome, Released | str):
            moved.append({"queue": call.queue.name, "wake": True})
        for queue in {row["queue"] for row in moved if row.get("wake")}:
            with contextlib.suppress(*FAILURES):
                await self.rows("select tidegate.wake(%(queue)s)", queue=queue)

    async def _search(self) -> None:
        """Searches for the receipts of requests that have ended and may have been executed, until it is cancelled."""
        kinds, failing = list(self.receipts), False
        async with asyncio.TaskGroup() as group:
            searches = set[asyncio.Task[None]]()
            while kinds:
                searches = {search for search in searches if not search.done()}
                due, room = list[DictRow](), SEARCHES - len(searches)
                try:
                    due = await self.rows(
                        "select id, send_id, kind, payload::text, attempt, attempt as attempts_max, deadline_at as deadline,"
                        " submitter, timeout_ms / 1000.0::float8 as timeout"
                        " from tidegate.search_claim(%(kinds)s, %(room)s)", kinds=kinds, room=room,
                    )
                    failing = False
                except Exception as error:
                    if not failing:
                        log.warning("cannot claim requests whose receipts are to be searched for: %r", error)
                    failing = True
                searches |= {group.create_task(self._search_for(row.pop("payload"), Context(**row))) for row in due}
                if len(due) < room:
                    await asyncio.sleep(self.poll)
                else:
                    await asyncio.wait(searches, return_when=asyncio.FIRST_COMPLETED)

    async def _search_for(self, payload: str, context: Context) -> None:
        """Searches once. One that fails or is cut off is made again: its next time is in the database."""
        found: Any = None
        try:
            async with asyncio.timeout(context.timeout):
                found = await self.receipts[context.kind](loads(payload), context)
        except TimeoutError as error:
            found = error
        except Exception as error:
            found = error
            self._tell(context, error)
        finally:
            context.cancelled.set()
        if not isinstance(found, Receipt | Never):
            log.debug("request %s: a search after its end has found %r", context.id, found)
            return
        finding, values = found.word, settle_values(found)
        settle = "tidegate.search_settle(%(id)s, %(finding)s, %(reference)s::text, %(response)s::jsonb)"
        while True:
            try:
                [row] = await self.rows(f"select {settle} as outcome", id=context.id, finding=finding, **values)
                return log.info("request %s: a search after its end has found %s: %s", context.id, finding, row["outcome"])
            except Exception as error:
                cannot = "request %s: a search after its end has found %s, which cannot be stored: %r"
                log.warning(cannot, context.id, finding, error)
                may_pass = isinstance(error, UNAVAILABLE) and not isinstance(error, TOO_LARGE)
                if values["response"] is None or may_pass:
                    # The next search finds it again.
                    return None
            finding, values = "answered", {"reference": None, "response": None}

    async def _listen(self) -> None:
        """Wakes idle queues by notifications. These are hints: without them the worker polls."""
        while True:
            try:
                async with await self._connect(self.listen_url or self.url) as connection:
                    await connection.execute("listen tidegate_queue")
                    for queue in self._drained.values():
                        queue.wake.set()
                    while True:
                        async for found in connection.notifies(timeout=30):
                            if found.payload in self._drained:
                                self._drained[found.payload].wake.set()
                        await asyncio.wait_for(connection.execute("select"), 5)
            except FAILURES as error:
                log.warning("not listening, polling goes on: %r", error)
            await asyncio.sleep(1)

    async def _upkeep(self) -> None:
        """Reports every ten seconds that the worker is alive, and runs each second the maintenance that is due."""
        stopping = False
        for second in itertools.count(1):
            try:
                if stopping or second % 10 == 0:
                    await self._report(stopping)
                await self.rows("call tidegate.maintain()")
            except FAILURES as error:
                log.warning("upkeep failed, and is repeated: %r", error)
            if stopping:
                break
            stopping = await is_set_within(self._stopping, 1)

    async def _report(self, stopping: bool = False) -> None:
        """Reports that the worker is alive. The first report comes before the first claim: a copy of a database, which
        must send nothing, is noticed by it."""
        stages = list({queue.stage for queue in self._drained.values()})
        kinds = list({kind for queue in self._drained.values() for kind in queue.kinds})
        await self.rows(
            "select tidegate.worker_seen(%(name)s, %(stages)s, %(queues)s, %(stopping)s, %(kinds)s)",
            name=self.name, stages=stages, queues=list(self.queues), stopping=stopping, kinds=kinds,
        )


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), max(seconds, 0))
    return event.is_set()


def settle_values(outcome: Outcome | Never | Released | str) -> dict[str, Any]:
    """The values of a settle's statement."""
    given: dict[str, Any] = dict.fromkeys(("error", "after", "may_have_left", "reference", "response"))
    if not isinstance(outcome, str):
        given |= vars(outcome) | {"word": outcome.word}
    if "code" in given:
        # A NUL or half of a surrogate pair cannot be stored.
        code, message = (re.sub("[\0\ud800-\udfff]", "\ufffd", given[name]) for name in ("code", "message"))
        given["error"] = Jsonb({"code": code, "message": message, "retryable": given.get("retryable", True)})
    if given["response"] is not None:
        given["response"] = Jsonb(given["response"], dumps)
    return given
