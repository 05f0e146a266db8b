"""What a stage gets and returns. A stage is an async function from a payload and its context to an outcome."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, TypeAlias
from uuid import UUID

Json: TypeAlias = Any


@dataclass(eq=False)
class Context:
    """The request of a call. `send_id` is the idempotency key towards the downstream: any call may come again."""

    id: UUID
    send_id: UUID  # its id, or that of the request which it repeats
    kind: str
    attempt: int
    attempts_max: int
    deadline: datetime
    submitter: str | None
    timeout: float  # the seconds after which the call is cancelled
    # Set when the call is cancelled, for code in other threads: async code gets a CancelledError.
    cancelled: threading.Event = field(default_factory=threading.Event, init=False)
    traceparent: str | None = None  # its place in its caller's trace, to be sent on; of a search none
    begins_trace: bool = False  # whether a span of this call begins a trace of its own, which links to that one


@dataclass(frozen=True)
class Passed:
    """The request can run: its check has passed."""

    word: ClassVar[str] = "passed"


@dataclass(frozen=True)
class Snooze:
    """The request cannot run yet; it is checked again `after` seconds, or as the policy has it. Uses no attempt."""

    word: ClassVar[str] = "snoozed"
    after: float | None = None


@dataclass(frozen=True)
class Receipt:
    """The downstream took the request: under this reference, perhaps with the response (None: it comes later)."""

    word: ClassVar[str] = "receipt"
    reference: str | None = None
    response: Json = None


@dataclass(frozen=True)
class Never:
    """The downstream promises: it has not executed the request, and will execute no earlier send of it."""

    word: ClassVar[str] = "never"


@dataclass(frozen=True)
class Rejected:
    """The request can never run, or the downstream refused it permanently."""

    word: ClassVar[str] = "rejected"
    code: str
    message: str
    retryable: bool = False


@dataclass(frozen=True)
class Retry:
    """The check or the send did not succeed; another attempt may: `after` seconds, or as the policy has it."""

    word: ClassVar[str] = "retry"
    code: str
    message: str
    after: float | None = None
    may_have_left: bool = True  # False only if the downstream has certainly not received this attempt


Check: TypeAlias = Callable[[Json, Context], Awaitable[Passed | Snooze | Retry | Rejected]]
Send: TypeAlias = Callable[[Json, Context], Awaitable[Receipt | Retry | Rejected]]
FindReceipt: TypeAlias = Callable[[Json, Context], Awaitable[Receipt | Never | None]]
Outcome: TypeAlias = Passed | Snooze | Receipt | Rejected | Retry
