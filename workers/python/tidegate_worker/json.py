"""JSON whose numbers keep all their digits: a whole number is an `int`, every other one a `Decimal`."""

from __future__ import annotations

from decimal import Decimal

import simplejson

from .outcomes import Json

# Python reads no `int` from more digits than `sys.get_int_max_str_digits()`, which is no less than this.
LONGEST_INT = 640


def loads(text: str | bytes) -> Json:
    """Reads JSON, such as a payload, or the body of a downstream's answer. Raises a ValueError."""
    return simplejson.loads(text, parse_int=parse_int, use_decimal=True)


def dumps(value: Json) -> str:
    """Writes JSON. Raises a TypeError or ValueError for what is none."""
    return simplejson.dumps(value, use_decimal=True, allow_nan=False)


def parse_int(text: str) -> int | Decimal:
    return int(text) if len(text) <= LONGEST_INT else Decimal(text)
