"""A Tidegate worker: claims requests, runs your stages, settles. `docs/workers.md` has the contract that it keeps."""

from .json import dumps, loads
from .outcomes import Context, Json, Never, Passed, Receipt, Rejected, Retry, Snooze
from .worker import Worker

__all__ = [
    "Context", "Json", "Never", "Passed", "Receipt", "Rejected", "Retry", "Snooze", "Worker", "dumps", "loads",
]  # fmt: skip
