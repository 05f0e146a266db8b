"""The statements that end a claim."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from psycopg.types.json import Jsonb

from .outcomes import Failed, Outcome, Passed, Receipt, Rejected, Retry, Snooze

LEASE, TOOK = "array[%(lease)s::tidegate.lease]", "took_ms => array[%(took_ms)s::integer]"
AFTER, ERROR = "array[%(after)s::interval]", "array[%(error)s::jsonb]"
SNOOZE = f"settle_snooze({LEASE}, {AFTER}, {ERROR}, {TOOK})"
SETTLE: Mapping[str, Mapping[type, str]] = {
    "readiness": {
        Passed: f"settle_passed({LEASE}, {TOOK})",
        Snooze: SNOOZE,
        Retry: SNOOZE,
        Failed: f"settle_failed({LEASE}, {ERROR}, {TOOK})",
    },
    "tx": {
        Receipt: f"settle_receipt({LEASE}, array[%(reference)s::text], array[%(response)s::jsonb], {TOOK})",
        Retry: f"settle_retry({LEASE}, {ERROR}, {AFTER}, array[%(may_have_left)s::boolean], {TOOK})",
        Rejected: f"settle_rejected({LEASE}, {ERROR}, {TOOK})",
    },
}


class Fate(enum.Enum):
    """The end of a claim without an outcome, and its statement."""

    LOST = ""
    # Its call has not begun, or is a check, which has no effect: the request goes back without an attempt.
    RELEASED = f"release({LEASE})"
    # Its send may have left. The lease ends now, and the next claim rescues the request, with a search for its receipt.
    CUT_OFF = f"extend({LEASE}, '10 ms')"


def settle_values(lease: str, outcome: Outcome | Fate, took_ms: int | None) -> dict[str, Any]:
    """The values of a settle's statement."""
    given = {} if isinstance(outcome, Fate) else vars(outcome)
    after, response, error = given.get("after"), given.get("response"), None
    if "code" in given:
        # A NUL or half of a surrogate pair cannot be stored.
        code, message = (re.sub("[\0\ud800-\udfff]", "\ufffd", given[name]) for name in ("code", "message"))
        error = Jsonb({"code": code, "message": message, "retryable": given["retryable"]})
    return {
        "lease": lease,
        "took_ms": took_ms,
        "after": None if after is None else timedelta(seconds=after),
        "error": error,
        "reference": given.get("reference"),
        "response": None if response is None else Jsonb(response),
        "may_have_left": given.get("may_have_left"),
    }
