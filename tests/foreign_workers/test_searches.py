"""Workers search for the receipts of requests that have ended and may have been executed."""

from __future__ import annotations

import signal
import time
import uuid

from conftest import Start
from fleet import Call, Downstream, Server, Worker, eventually


SUBMIT = "select id::text from tidegate.submit('direct', '1', %s)"


def lost(server: Server, downstream: Downstream, *keys: str | None) -> list[str]:
    """The ids of requests that were failed by hand during their sends."""
    ids = [str(row["id"]) for key in keys for row in server.rows(SUBMIT, key)]
    sends = [downstream.next(id, "send") for id in ids]
    assert [send.send_id for send in sends] == ids
    # Tests say when they are searched for.
    with server.database.transaction():
        server.rows("select tidegate.fail_request(id, 'lost') from unnest(%s::uuid[]) as id", ids)
        search_in(server, "1 hour", *ids)
    for send in sends:
        send.is_dropped()
    return ids


def search_in(server: Server, time: str, *ids: str) -> None:
    """Lets the next searches for requests be due after a time."""
    due = "update tidegate.outcome set search_at = tidegate.clock() + %s::interval where request_id = any(%s::uuid[])"
    server.rows(due, time, list(ids))


def searched(server: Server, downstream: Downstream, id: str) -> Call:
    """The next search for a request, which is due at once."""
    search_in(server, "0", id)
    find = downstream.next(id, "find")
    assert (find.attempt, find.kind, find.payload, find.send_id) == (1, "direct", 1, id)
    return find


def settles(worker: Worker, id: str, finding: str) -> None:
    worker.writes(f"{id}: a search after its end has found {finding}")


def test_a_search_after_the_end_finds_the_response(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language, poll=0.1)
    [id] = lost(server, downstream, None)
    searched(server, downstream, id).answer("raise")
    searched(server, downstream, id).answer(None)
    assert server.resolution(id) is None
    # The downstream took it, which does not say that it has executed it.
    searched(server, downstream, id).answer("receipt", reference=f"ref-{id}")
    settles(worker, id, "receipt: recorded")
    assert (server.request(id)["reference"], server.resolution(id)) == (f"ref-{id}", None)
    searched(server, downstream, id).answer("receipt", response={"cents": 5})
    settles(worker, id, "receipt: resolved")
    known = server.resolution(id)
    assert (known["executed"], known["source"], known["response"]) == ("yes", "search", {"cents": 5})
    assert server.request(id)["status"] == "failure"


def test_a_promise_of_the_downstream_frees_the_key(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    worker = start(language, poll=0.1)
    key = str(uuid.uuid4())
    [id] = lost(server, downstream, key)
    assert server.rows(SUBMIT, key) == [{"id": id}]
    searched(server, downstream, id).answer("never")
    settles(worker, id, "never: resolved")
    known = server.resolution(id)
    assert (known["executed"], known["source"]) == ("no", "search")
    assert server.request(id)["error"]["retryable"]
    [row] = server.rows(SUBMIT, key)
    assert row["id"] != id
    downstream.next(row["id"], "send").answer("receipt", response=1)
    server.becomes(row["id"], "completed")


def test_a_repeat_is_searched_for_and_sent_under_the_id_of_the_first(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    server.rows("update tidegate.queue set per_seconds = 40 where name = 'tx'")
    try:
        start(language, poll=0.1)
        [first] = lost(server, downstream, None)
        [row] = server.rows(
            "select unnest(d.new_ids)::text as id from tidegate.request as r,"
            " tidegate.redrive(kind => 'direct', since => r.finished_at, may_repeat => true) as d where r.id = %s",
            first,
        )
        second = str(row["id"])
        find = downstream.next(second, "find")
        assert (find.attempt, find.send_id) == (1, first)
        # It is later than its slot then, and takes another. Before a send, a promise is as good as nothing.
        time.sleep(0.2)
        find.answer("never")
        send = downstream.next(second, "send")
        assert (send.attempt, send.send_id) == (1, first)
        send.answer("receipt", response=7)
        assert server.becomes(second, "completed")["tx_attempt"] == 1
    finally:
        server.rows("update tidegate.queue set per_seconds = null where name = 'tx'")


def test_a_search_is_dropped_at_its_timeout_and_at_a_stop(
    server: Server, downstream: Downstream, start: Start, language: str, other: str
) -> None:
    worker = start(language, poll=0.1)
    [id] = lost(server, downstream, None)
    server.tidegate("config", "set", "direct.tx.timeout_ms", "300")
    try:
        find = searched(server, downstream, id)
        search_in(server, "1 hour", id)
        find.is_dropped()
        assert 0.25 < time.time() - find.at < 5
    finally:
        server.tidegate("config", "set", "direct.tx.timeout_ms", "10000")
    find = searched(server, downstream, id)
    worker.signal(signal.SIGTERM)
    # Long before its timeout, and the grace of calls.
    find.is_dropped(3)
    assert worker.ends() == 0
    worker = start(other, poll=0.1)
    searched(server, downstream, id).answer("never")
    settles(worker, id, "never: resolved")


def test_few_searches_run_at_once(server: Server, downstream: Downstream, start: Start, language: str) -> None:
    worker = start(language, poll=0.1)
    ids = lost(server, downstream, *[None] * 20)
    search_in(server, "0", *ids)
    eventually(lambda: len(downstream.calls) == 16, "sixteen searches")
    time.sleep(0.5)
    assert len(downstream.calls) == 16
    # The next ones do not wait for a poll.
    for number in range(20):
        eventually(lambda: len(downstream.calls) > number, "another search")
        downstream.calls[number].answer("never")
    for id in ids:
        settles(worker, id, "never")
    downstream.calls.clear()


def test_a_worker_outlives_searches_that_the_database_refuses(
    server: Server, downstream: Downstream, start: Start, language: str
) -> None:
    server.rows("revoke execute on function tidegate.search_claim from tidegate_worker")
    try:
        worker = start(language, poll=0.05)
        refused = "cannot claim requests whose receipts are to be searched for"
        worker.writes(refused)
        time.sleep(0.5)
        # Said once, not ten times.
        assert worker.text().count(refused) == 1
        [id] = lost(server, downstream, None)
    finally:
        server.rows("grant execute on function tidegate.search_claim to tidegate_worker")
    # A response that cannot be stored shows that the request was executed, and costs nothing else.
    searched(server, downstream, id).answer("receipt", response="\0")
    worker.writes(f"{id}: a search .* has found receipt, which cannot be stored")
    settles(worker, id, "answered: resolved")
    assert server.request(id)["error"]["message"].endswith("; it was executed")
