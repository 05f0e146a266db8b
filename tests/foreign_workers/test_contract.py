"""Workers in Python and TypeScript keep the contract of docs/workers.md."""

from __future__ import annotations

import os
import signal
import threading
import time
from decimal import Decimal

import pytest
import simplejson
from conftest import Start
from fleet import Call, Downstream, Server, eventually


def answer_all(call: Call) -> None:
    """A downstream that takes everything at once."""
    call.answer({"check": "passed", "send": "receipt", "find": None}[call.step], **(
        {"response": {"by": call.worker}} if call.step == "send" else {}
    ))  # fmt: skip


def test_a_request_is_checked_sent_and_answered(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    start(language)
    id = server.submit("public_decrypt", {"handle": "0x01"})
    check = downstream.next(id, "check")
    assert (check.attempt, check.kind, check.payload) == (1, "public_decrypt", {"handle": "0x01"})
    check.answer("passed")
    downstream.next(id, "send").answer("receipt", reference=f"ref-{id}")
    assert server.becomes(id, "receipt_received")["reference"] == f"ref-{id}"
    server.rows("select tidegate.respond('7', reference => %s)", f"ref-{id}")
    request = server.becomes(id, "completed")
    assert (request["response"], request["readiness_attempt"], request["tx_attempt"]) == (7, 1, 1)


def test_a_response_that_comes_with_the_receipt_completes_a_direct_request(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    start(language)
    id = server.submit("direct", ["a", 1, None])
    send = downstream.next(id, "send")
    assert send.payload == ["a", 1, None]
    send.answer("receipt", response={"hash": "0xé\u2028"})
    assert server.becomes(id, "completed")["response"] == {"hash": "0xé\u2028"}


def test_a_refusal_ends_the_request_with_its_error(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    start(language)
    checked, sent = server.submit("public_decrypt"), server.submit("direct")
    error = {"code": "no_such_handle", "message": "0x01 is unknown", "retryable": True}
    downstream.next(checked, "check").answer("rejected", **error)
    # A NUL cannot be stored, and costs nothing but itself.
    downstream.next(sent, "send").answer("rejected", code="bad\0address", message="0x06 takes nothing")
    request = server.becomes(checked, "failure")
    assert (request["cause"], request["error"]) == ("readiness_failed", error)
    request = server.becomes(sent, "failure")
    assert request["cause"] == "rejected"
    assert request["error"] == {"code": "bad\ufffdaddress", "message": "0x06 takes nothing", "retryable": False}


def test_a_snoozed_check_is_made_again_and_uses_no_attempt(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    start(language)
    id = server.submit("public_decrypt")
    first = downstream.next(id, "check")
    first.answer("snoozed", after=0.5)
    again = downstream.next(id, "check")
    assert again.at - first.at >= 0.5
    again.answer("retry", code="http_503", message="later", after=0)
    last = downstream.next(id, "check")
    assert (again.attempt, last.attempt) == (2, 3)
    request = server.request(id)
    assert (request["readiness_attempt"], request["readiness_waits"]) == (3, 1)
    last.answer("rejected", code="enough", message="enough")
    server.becomes(id, "failure")


def test_a_failed_send_is_retried_after_a_search_for_its_receipt(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language)
    id = server.submit("direct")
    downstream.next(id, "send").answer("retry", code="http_503", message="busy", after=0, may_have_left=False)
    find = downstream.next(id, "find")
    assert (find.attempt, server.request(id)["tx_unsent"]) == (2, 1)
    find.answer(None)
    downstream.next(id, "send").answer("raise")
    # The policy decides when: half a second to begin with.
    find = downstream.next(id, "find")
    assert (find.attempt, server.request(id)["tx_unsent"]) == (3, 1)
    assert server.request(id)["error"]["code"] == "stage_raised"
    find.answer("raise")
    find = downstream.next(id, "find")
    # A search that failed has sent nothing.
    assert (find.attempt, server.request(id)["tx_unsent"]) == (4, 2)
    find.answer("receipt", response="found")
    assert server.becomes(id, "completed")["response"] == "found"
    # Both exceptions are of one line.
    assert worker.text().count("raised an exception" if language == "python" else "threw an exception") == 1
    worker.writes(r"raise RuntimeError|\n +at ask ")


def test_a_call_is_dropped_at_the_timeout_of_its_policy(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    server.tidegate("config", "set", "direct.tx.timeout_ms", "300")
    try:
        start(language)
        id = server.submit("direct")
        call = downstream.next(id, "send")
        call.is_dropped()
        assert 0.25 < time.time() - call.at < 5
        downstream.next(id, "find").answer(None)
        assert server.request(id)["error"]["code"] == "timeout"
        downstream.next(id, "send").answer("receipt", response=1)
        server.becomes(id, "completed")
    finally:
        server.tidegate("config", "set", "direct.tx.timeout_ms", "10000")


def test_a_worker_whose_log_nobody_reads_works_and_stops(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language, reads_log=False)
    id = server.submit("direct")
    downstream.next(id, "send").answer("retry", code="http_503", message="busy", after=0, may_have_left=False)
    downstream.next(id, "find").answer("raise")
    find = downstream.next(id, "find")
    find.answer("receipt", response=1)
    server.becomes(id, "completed")
    worker.signal(signal.SIGTERM)
    assert worker.ends() in (0, 120)  # Python's own status for output that it could not write


NUMBERS = """
    [9007199254740993, -18446744073709551617, 123456789012345678901234567890.15, 0.1000000000000000055511151231257827,
     1e-320, 2e308, 0.3, 1.10, -0.0, 7]
"""


@pytest.mark.parametrize("text", [NUMBERS, "9" * 5000])
def test_numbers_keep_their_digits(
    server: Server, downstream: Downstream, start: Start, language: str, text: str
) -> None:
    start(language)
    id = server.rows("select id::text from tidegate.submit('direct', %s)", text)[0]["id"]
    send = downstream.next(id, "send")
    sent = simplejson.loads(text, use_decimal=True, parse_int=Decimal)
    send.answer("receipt", response={"numbers": send.payload, "number": sent})
    # Compared in the database: this program would not read all of them either.
    compared = (
        "select r.response -> 'numbers' = r.payload as received, r.response -> 'number' = r.payload as answered"
        " from tidegate.request as r where r.id = %s and r.req_status = 'completed'"
    )
    [row] = eventually(lambda: server.rows(compared, id), f"{id} is completed")
    assert (row["received"], row["answered"]) == (True, True)


def test_a_payload_that_is_nested_deep_harms_no_other(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language)
    downstream.automatic = answer_all
    deep = server.rows("select id::text from tidegate.submit('direct', %s)", "[" * 5000 + "]" * 5000)[0]["id"]
    server.becomes(server.submit("direct"), "completed")
    ended = "select error ->> 'code' as code from tidegate.request where id = %s and finished_at is not null"
    [row] = eventually(lambda: server.rows(ended, deep), f"{deep} has ended")
    assert row["code"] == "invalid_payload"
    assert worker.process.poll() is None


@pytest.mark.parametrize("receipt", [{"response": "\0"}, {"reference": os.urandom(4000).hex(), "response": 1}])
def test_a_receipt_that_cannot_be_stored_ends_its_request(
    server: Server, downstream: Downstream, start: Start, language: str, receipt: dict[str, object]
) -> None:
    start(language)
    id = server.submit("direct")
    # The long reference does not fit an index: an error of class 54, which psycopg calls operational.
    downstream.next(id, "send").answer("receipt", **receipt)
    request = server.becomes(id, "failure")
    assert (request["error"]["code"], request["tx_attempt"]) == ("unstorable_response", 1)


def test_a_receipt_waits_while_the_database_takes_no_writes(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language)
    id = server.submit("direct")
    send = downstream.next(id, "send")
    # This session must still write while others are read-only.
    server.rows("set default_transaction_read_only = off")
    server.rows("alter system set default_transaction_read_only = on")
    try:
        server.rows("select pg_reload_conf()")
        worker.writes("cannot claim")
        send.answer("receipt", response=1)
        worker.writes(f"{id}: cannot settle yet")
    finally:
        server.rows("alter system reset default_transaction_read_only")
        server.rows("select pg_reload_conf()")
    assert server.becomes(id, "completed")["tx_attempt"] == 1


def test_a_lease_is_extended_during_a_long_call(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    start(language, lease=2)
    id = server.submit("direct")
    call = downstream.next(id, "send")
    until = "select c.until, tidegate.clock() as now from tidegate.claim as c where %s::uuid = any(c.ids)"
    [first] = server.rows(until, id)

    def is_extended_beyond_its_end() -> bool:
        [now] = server.rows(until, id)
        return bool(now["now"] > first["until"] and now["until"] > now["now"])

    deadline = time.monotonic() + 10
    while not is_extended_beyond_its_end():
        assert time.monotonic() < deadline
    call.answer("receipt", response=1)
    assert server.becomes(id, "completed")["tx_attempt"] == 1


def test_a_call_is_dropped_when_its_request_is_cancelled(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language)
    id = server.submit("public_decrypt")
    call = downstream.next(id, "check")
    server.rows("select tidegate.cancel(%s)", id)
    # Before the policy's timeout of five seconds, and long before the lease is extended.
    call.is_dropped(3)
    worker.writes(f"{id}: the lease is lost")
    # The worker goes on.
    id = server.submit("direct")
    downstream.next(id, "send").answer("receipt", response=1)
    server.becomes(id, "completed")


def test_a_call_is_dropped_before_its_lease_ends_while_the_database_does_not_answer(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    start(language, lease=6).works()
    id = server.submit("direct")
    call = downstream.next(id, "send")
    processes = server.rows("select pid from pg_stat_activity where usename = 'foreign_worker'")
    stopped = [int(process["pid"]) for process in processes]
    # With the server that accepts new connections.
    stopped += [int(file.read_text().split()[0]) for file in server.directory.glob("postgres/**/postmaster.pid")]
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        until = "select extract(epoch from c.until - tidegate.clock())::float8 as left from tidegate.claim as c"
        [lease] = server.rows(f"{until} where %s::uuid = any(c.ids)", id)
        call.is_dropped(lease["left"])
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    downstream.next(id, "find").answer("receipt", response=1)
    server.becomes(id, "completed")


def test_a_killed_worker_is_replaced_after_its_lease(
    server: Server, downstream: Downstream, start: Start, language: str, other: str
) -> None:
    killed = start(language, lease=2)
    id = server.submit("direct")
    assert downstream.next(id, "send").worker == killed.name
    rescuer = start(other, lease=2).works()
    killed.signal(signal.SIGKILL)
    assert killed.ends() == -signal.SIGKILL
    find = downstream.next(id, "find")
    assert (find.worker, find.attempt) == (rescuer.name, 2)
    # The downstream has taken it: it is not sent again.
    find.answer("receipt", response="taken")
    assert server.becomes(id, "completed")["response"] == "taken"
    assert [event["cause"] for event in server.rows(
        "select cause from tidegate.request_event where request_id = %s order by at, transition_no", id
    )] == ["submitted", "claimed", "recovered", "claimed", "receipt"]  # fmt: skip


def test_the_settle_of_a_lost_lease_is_refused(
    server: Server, downstream: Downstream, start: Start, language: str, other: str
) -> None:
    stale = start(language)
    id = server.submit("direct")
    late = downstream.next(id, "send")
    stale.signal(signal.SIGSTOP)
    # Its own clock goes on to count a lease of half a minute.
    server.rows(
        "select tidegate.extend(array[row(r.queue, r.lease, r.id)::tidegate.lease], '10 ms')"
        " from tidegate.request as r where r.id = %s",
        id,
    )
    start(other)
    downstream.next(id, "find").answer(None)
    second = downstream.next(id, "send")
    assert second.attempt == 2
    late.answer("receipt", response="late")
    stale.signal(signal.SIGCONT)
    # The outcome itself, and not only its call: the row count of the settle is zero.
    assert "late" in stale.writes(f"{id}: the lease is lost, .* is discarded")
    request = server.request(id)
    assert (request["status"], request["response"]) == ("tx_in_flight", None)
    second.answer("receipt", response="second")
    assert server.becomes(id, "completed")["response"] == "second"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_calls_end_and_nothing_more_is_claimed(
    server: Server, downstream: Downstream, start: Start, language: str, number: signal.Signals
) -> None:
    worker = start(language).works()
    id = server.submit("direct")
    call = downstream.next(id, "send")
    worker.signal(number)
    stopped = "select 1 from tidegate.worker_overview where name = %s and stopped_at is not null and not alive"
    deadline = time.monotonic() + 10
    while not server.rows(stopped, worker.name):
        assert time.monotonic() < deadline
    later = server.submit("direct")
    call.answer("receipt", response=1)
    assert worker.ends() == 0
    assert server.becomes(id, "completed")["tx_attempt"] == 1
    assert server.request(later)["tx_attempt"] == 0
    server.rows("select tidegate.cancel(%s)", later)


def test_after_the_grace_other_workers_get_the_calls_at_once(
    server: Server, downstream: Downstream, start: Start, language: str, other: str
) -> None:
    worker = start(language, lease=600, grace=0.2)
    sent, checked = server.submit("direct"), server.submit("public_decrypt")
    calls = [downstream.next(sent, "send"), downstream.next(checked, "check")]
    start(other).works()
    worker.signal(signal.SIGTERM)
    for call in calls:
        call.is_dropped()
    assert worker.ends() == 0
    # A check has no effect, and its attempt does not count. A send may have left: its rescue searches for the receipt.
    check, find = downstream.next(checked, "check", 5), downstream.next(sent, "find", 5)
    assert (check.attempt, find.attempt) == (1, 2)
    check.answer("rejected", code="enough", message="enough")
    find.answer("receipt", response=1)
    server.becomes(checked, "failure")
    server.becomes(sent, "completed")


def test_a_notification_wakes_an_idle_worker(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language, poll=60, queues=["tx"]).works()
    # Written before a pause of four seconds begins.
    worker.writes("queue tx: nothing to claim, waiting 4.096 s")
    submitted_at = time.time()
    id = server.submit("direct")
    call = downstream.next(id, "send")
    assert call.at - submitted_at < 1
    call.answer("receipt", response=1)
    server.becomes(id, "completed")


def test_a_worker_notices_a_copy_before_its_first_claim(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    assert server.node
    # A node notices copies, too.
    server.node.send_signal(signal.SIGSTOP)
    try:
        server.rows("update tidegate.installation set database_oid = database_oid::bigint - 1")
        id = server.submit("direct")
        worker = start(language, queues=["tx"])
        worker.writes("queue tx: nothing to claim, waiting")
        assert len(server.rows("select because from tidegate.quarantine_state")) == 1
        assert server.request(id)["tx_attempt"] == 0
        server.tidegate("adopt")
        downstream.next(id, "send").answer("receipt", response=1)
        server.becomes(id, "completed")
    finally:
        server.node.send_signal(signal.SIGCONT)


def test_without_notifications_a_worker_polls(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language, poll=0.5, listen_url="postgres://nowhere@127.0.0.1:9/none")
    worker.writes("not listening, polling goes on")
    worker.writes("queue tx: nothing to claim, waiting 0.500 s")
    id = server.submit("direct")
    downstream.next(id, "send", 5).answer("receipt", response=1)
    server.becomes(id, "completed")


def test_kinds_without_a_stage_are_left_to_other_workers(
    server: Server, downstream: Downstream, start: Start, language: str, other: str
) -> None:
    start(language, queues=["tx"], kinds=["direct"])
    left = [server.submit("input_proof") for _ in range(3)]
    id = server.submit("direct")
    downstream.next(id, "send").answer("receipt", response=1)
    server.becomes(id, "completed")
    for proof in left:
        request = server.request(proof)
        assert (request["status"], request["tx_attempt"]) == ("processing", 0)
    start(other, queues=["tx"], kinds=["input_proof"])
    for proof in left:
        downstream.next(proof, "send").answer("receipt", reference=proof)
        server.becomes(proof, "receipt_received")
        server.rows("select tidegate.respond('{}', reference => %s, accept => true)", proof)
        server.becomes(proof, "completed")


def test_a_worker_outlives_its_connections(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    start(language).works()
    id = server.submit("direct")
    call = downstream.next(id, "send")
    server.rows("alter role foreign_worker nologin")
    try:
        [ended] = server.rows(
            "select count(pg_terminate_backend(pid)) as n from pg_stat_activity where usename = 'foreign_worker'"
        )
        assert ended["n"] >= 2
        call.answer("receipt", response=1)
    finally:
        server.rows("alter role foreign_worker login")
    assert server.becomes(id, "completed")["tx_attempt"] == 1
    id = server.submit("direct")
    downstream.next(id, "send").answer("receipt", response=1)
    server.becomes(id, "completed")


def test_no_more_calls_run_at_once_than_allowed(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    start(language, concurrency=2)
    ids = [server.submit("direct") for _ in range(3)]
    calls = [downstream.next(id, "send") for id in ids[:2]]
    held = server.rows("select req_status::text as status from tidegate.request where id = any(%s::uuid[])", ids)
    assert sorted(row["status"] for row in held) == ["processing", "tx_in_flight", "tx_in_flight"]
    calls[0].answer("receipt", response=1)
    # The free place is taken at once.
    third = downstream.next(ids[2], "send", 1)
    third.answer("receipt", response=1)
    calls[1].answer("receipt", response=1)
    for id in ids:
        server.becomes(id, "completed")


def test_sends_keep_the_rate_of_their_queue(
    server: Server, downstream: Downstream, start: Start, language: str, other: str
) -> None:
    server.rows("update tidegate.queue set per_seconds = 40 where name = 'tx'")
    try:
        downstream.automatic = answer_all
        start(language).works()
        start(other).works()
        ids = [server.submit("direct") for _ in range(100)]
        for id in ids:
            server.becomes(id, "completed")
    finally:
        server.rows("update tidegate.queue set per_seconds = null where name = 'tx'")
    sends = sorted(call.at for call in downstream.calls)
    assert len(sends) == 100 and {call.attempt for call in downstream.calls} == {1}
    # 40 a second, a burst of one, and what a lateness of 50 ms allows.
    assert all(sends[n + 43] - sends[n] > 1 for n in range(len(sends) - 43))
    assert sends[-1] - sends[0] < 2 * 100 / 40


def test_each_send_of_a_claim_waits_for_its_slot(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    server.rows("update tidegate.queue set per_seconds = 11, paused = true where name = 'tx'")
    try:
        ids = [server.submit("direct") for _ in range(2)]
        start(language).works()
        # Slots of the rate are 91 ms apart.
        server.rows("update tidegate.queue set paused = false where name = 'tx'")
        calls = [downstream.next(id, "send") for id in ids]
    finally:
        server.rows("update tidegate.queue set per_seconds = null, paused = false where name = 'tx'")
    # A send may be 50 ms late, and not early; one that is later is released, and may come second.
    assert abs(calls[1].at - calls[0].at) > 0.039
    for call in calls:
        call.answer("receipt", response=1)
        server.becomes(call.id, "completed")


def test_a_worker_that_cannot_work_ends_with_the_reason(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    def refused(**options: object) -> str:
        worker = start(language, **options)
        assert worker.ends() == 1
        return worker.text()

    assert 'there is no queue "txx"; see `select name, stage from tidegate.queue`' in refused(queues=["txx"])
    assert 'kind "drect" is not registered: did you mean direct?' in refused(kinds=["direct", "drect"])
    assert 'kind "zzz" is not registered: there are direct, ' in refused(kinds=["zzz"])
    server.tidegate("config", "set", "direct.tx.semantics", "exactly_once")
    try:
        assert 'kind "direct" has exactly_once semantics' in refused()
    finally:
        server.tidegate("config", "set", "direct.tx.semantics", "at_least_once")
    server.rows("revoke tidegate_worker from foreign_worker")
    try:
        assert "permission denied" in refused()
    finally:
        server.rows("grant tidegate_worker to foreign_worker")


def test_two_languages_share_a_queue_and_each_request_has_one_answer(
    server: Server, downstream: Downstream, start: Start
) -> None:
    workers = {start(language, concurrency=10).works().name for language in ("python", "typescript")}
    both = threading.Event()

    def answer(call: Call) -> None:
        if {made.worker for made in downstream.calls} == workers:
            both.set()
        # The first calls wait until both workers have some.
        assert both.wait(30)
        answer_all(call)

    downstream.automatic = answer
    payloads = [f'{{"n": {n}}}' for n in range(400)]
    submitted = server.rows("select id::text from tidegate.submit_batch('direct', %s::jsonb[])", payloads)
    ids = [str(row["id"]) for row in submitted]
    for id in ids:
        request = server.becomes(id, "completed")
        assert request["tx_attempt"] == 1
    assert sorted(call.id for call in downstream.calls) == sorted(ids)
    answered_by = {call.id: call.worker for call in downstream.calls}
    assert set(answered_by.values()) == workers
    for row in server.rows(
        "select r.id::text, r.response, count(*) as receipts from tidegate.request as r"
        " join tidegate.request_event as e on e.request_id = r.id and e.cause = 'receipt'"
        " where r.id = any(%s::uuid[]) group by r.id",
        ids,
    ):
        assert (row["response"], row["receipts"]) == ({"by": answered_by[row["id"]]}, 1)
