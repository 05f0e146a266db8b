"""A request's life, and what may refuse a call, through the generated client and its types."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import MutableMapping
from datetime import UTC, datetime, timedelta

from tidegate_client import AuthenticatedClient
from tidegate_client.api.requests import cancel, follow, list_, poll, submit, submit_batch
from tidegate_client.api.responses import resolve
from tidegate_client.models import (
    Batch,
    BatchInProgress,
    CancelledJob,
    EndedBatch,
    Finding,
    FindingExecuted,
    GateClosedProblem,
    IdempotencyKeyReusedProblem,
    IllegalStateProblem,
    InProgress,
    NotCancellableProblem,
    Page,
    ResolvedJob,
    Succeeded,
    UnauthenticatedProblem,
    UnknownKindProblem,
    UnknownRequestProblem,
    Unsuccessful,
    UnsuccessfulExecuted,
)

KIND = "direct"
KEY = f"python-{uuid.uuid4()}"
PAYLOAD = {"from": "python"}
client = AuthenticatedClient(os.environ["API"], os.environ["KEY"], raise_on_unexpected_status=True)


def wait(headers: MutableMapping[str, str]) -> None:
    time.sleep(int(headers["Retry-After"]))


def end_of(job_id: uuid.UUID) -> Succeeded | Unsuccessful:
    """Polls as often as the answers allow."""
    while True:
        answer = poll.sync_detailed(KIND, job_id, client=client)
        if not isinstance(answer.parsed, InProgress):
            assert isinstance(answer.parsed, Succeeded | Unsuccessful), answer
            return answer.parsed
        assert answer.parsed.eta_seconds == int(answer.headers["Retry-After"])
        wait(answer.headers)


# The gate is closed at first.
refusals = 0
while True:
    submitted = submit.sync_detailed(KIND, client=client, body=PAYLOAD, idempotency_key=KEY)
    if not isinstance(submitted.parsed, GateClosedProblem):
        break
    refusals += 1
    assert submitted.status_code == submitted.parsed.status == 429
    assert submitted.parsed.retry_after_seconds == int(submitted.headers["Retry-After"])
    wait(submitted.headers)
assert refusals > 0
job = submitted.parsed
assert isinstance(job, InProgress) and job.status == "queued", submitted
assert submitted.headers["Location"] == f"/v1/{KIND}/{job.job_id}"

ended = end_of(job.job_id)
assert isinstance(ended, Succeeded) and ended.job_id == job.job_id and ended.result, ended
assert ended.executed == "yes", ended
followed = follow.sync(KIND, job.job_id, client=client)
assert isinstance(followed, str) and "event: result\n" in followed, followed

# The key stands for this request.
again = submit.sync_detailed(KIND, client=client, body=PAYLOAD, idempotency_key=KEY)
assert again.status_code == 200 and again.parsed == ended, again
assert again.headers["Idempotency-Replayed"] == "true"
reused = submit.sync(KIND, client=client, body={"from": "another"}, idempotency_key=KEY)
assert isinstance(reused, IdempotencyKeyReusedProblem) and not reused.retryable, reused

# Without a key, the same payload is another request; the caller waits for its end.
held = submit.sync_detailed(KIND, client=client, body=PAYLOAD, prefer="wait=2")
assert held.headers["Preference-Applied"] == "wait=2"
assert isinstance(held.parsed, InProgress | Succeeded) and held.parsed.job_id != job.job_id, held
assert isinstance(end_of(held.parsed.job_id), Succeeded)

batch = submit_batch.sync(KIND, client=client, body=[{"number": 1}, "two", 3])
assert isinstance(batch, Batch) and len(batch.job_ids) == 3, batch
while True:
    polled = list_.sync_detailed(KIND, client=client, id=batch.job_ids)
    if not isinstance(polled.parsed, BatchInProgress):
        break
    wait(polled.headers)
assert isinstance(polled.parsed, EndedBatch), polled
assert [one.job_id for one in polled.parsed.requests if isinstance(one, Succeeded)] == batch.job_ids
page = list_.sync(KIND, client=client, limit=1)
assert isinstance(page, Page) and page.next_ and page.requests[0].job_id in batch.job_ids, page

later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
delayed = submit.sync(KIND, client=client, body=PAYLOAD, tidegate_not_before=later)
assert isinstance(delayed, InProgress), delayed
assert isinstance(cancel.sync(KIND, delayed.job_id, client=client), CancelledJob)
cancelled = end_of(delayed.job_id)
assert isinstance(cancelled, Unsuccessful) and cancelled.error.code == "cancelled", cancelled
assert cancelled.executed is UnsuccessfulExecuted.NO, cancelled
late = cancel.sync(KIND, job.job_id, client=client)
assert isinstance(late, NotCancellableProblem) and late.status == 409, late

# A search has found the response of this one after its end. An operator does not contradict the downstream.
answered = uuid.UUID(os.environ["LATE"])
failed = end_of(answered)
assert isinstance(failed, Unsuccessful) and failed.executed is UnsuccessfulExecuted.YES, failed
assert failed.resolution and failed.resolution.source == "search" and failed.resolution.response, failed
assert not failed.error.retryable, failed
yes, no = Finding(FindingExecuted.YES), Finding(FindingExecuted.NO, note="asked by telephone")
known = resolve.sync(KIND, answered, client=client, body=yes)
assert isinstance(known, ResolvedJob) and known.outcome == "known", known
contradicted = resolve.sync(KIND, answered, client=client, body=no)
assert isinstance(contradicted, IllegalStateProblem) and contradicted.status == 409, contradicted

nowhere = submit.sync("nothing", client=client, body=PAYLOAD)
assert isinstance(nowhere, UnknownKindProblem) and nowhere.code == "unknown_kind", nowhere
unknown = poll.sync(KIND, uuid.uuid4(), client=client)
assert isinstance(unknown, UnknownRequestProblem) and str(unknown.detail), unknown
stranger = AuthenticatedClient(os.environ["API"], "tg_0")
unauthenticated = poll.sync(KIND, job.job_id, client=stranger)
assert isinstance(unauthenticated, UnauthenticatedProblem), unauthenticated

print(f"Python: refused {refusals} times, then {ended.result}")
