"""Connections to the database, and its clock."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row

# Errors after which the same statement may succeed later.
UNAVAILABLE = (psycopg.OperationalError, asyncio.TimeoutError, OSError)
# Errors of statements, all of them.
FAILURES = (psycopg.Error, *UNAVAILABLE)


class Database:
    """A few connections, opened when needed and closed after an error."""

    def __init__(self, url: str, limit: float, size: int = 4) -> None:
        # Claims and extensions are durable before a call begins, whatever the server's default is.
        self._url = make_conninfo(url, options="-c synchronous_commit=on")
        self._limit, self._places = limit, asyncio.Semaphore(size)
        self._idle: list[psycopg.AsyncConnection[DictRow]] = []

    async def rows(self, sql: str, limit: float | None = None, **values: Any) -> list[DictRow]:
        """The rows of a statement, which is a transaction of its own; a TimeoutError after `limit` seconds."""
        return await asyncio.wait_for(self._rows(sql, values), limit or self._limit)

    async def _rows(self, sql: str, values: dict[str, Any]) -> list[DictRow]:
        async with self._places:
            connection = self._idle.pop() if self._idle else await self.connect()
            try:
                cursor = await connection.execute(sql.encode(), values)
                rows = await cursor.fetchall() if cursor.description else []
            except BaseException as error:
                await connection.close()
                # The other connections are probably lost, too.
                if isinstance(error, psycopg.OperationalError):
                    await self.close()
                raise
            self._idle.append(connection)
            return rows

    async def connect(self, url: str | None = None) -> psycopg.AsyncConnection[DictRow]:
        # Nothing is prepared, so that any pooler will do.
        return await psycopg.AsyncConnection.connect(
            url or self._url, autocommit=True, row_factory=dict_row, prepare_threshold=None
        )

    async def close(self) -> None:
        """Closes the idle connections."""
        while self._idle:
            await self._idle.pop().close()


class DatabaseClock:
    """When a reserved send may start, by the monotonic clock of this process.

    The fastest recent answer counts as immediate. Another one was delayed by the difference, and its send shall not be
    late by that.
    """

    def __init__(self) -> None:
        # By how much this process's clock is ahead of the database's.
        self._ahead, self._at = math.inf, 0.0

    async def read(self, database: Database) -> None:
        """Reads the database's clock, by an answer that is fast."""
        asked_at = time.monotonic()
        [row] = await database.rows("select extract(epoch from tidegate.clock())::float8 as at")
        self.start(row["at"], 0, asked_at)

    def start(self, reserved_at: float, start_in: float, asked_at: float) -> float:
        """The start of a send that may begin `start_in` seconds after the database's `reserved_at`."""
        known_at = time.monotonic()
        ahead = known_at - reserved_at
        # A millisecond a second is more than clocks drift apart.
        fastest = min(ahead, self._ahead + 0.001 * (known_at - self._at))
        if ahead - fastest > known_at - asked_at:
            # No answer is delayed for longer than its round trip: the database's clock has stepped back.
            fastest = ahead
        self._ahead, self._at = fastest, known_at
        return known_at - (ahead - fastest) + start_in
