"""A restore to a moment under load, through the steps of docs/repair.md, after a control that leaves them out."""

import collections
import json
import shutil
import time

import postgres
from downstream import SEND, Downstream
from fleet import Callers
from rehearsal import DEADLINE, KINDS, SETTINGS, START, load, quarantine, requests, settled, steps, violations


def set_up(rehearsal):
    """A database with its fleet, and the keys of callers and downstream."""
    cluster = rehearsal.cluster("original")
    cluster.initialise()
    rehearsal.archive = postgres.own(rehearsal.clusters / "archive")
    cluster.configure()
    cluster.configure(
        f"archive_mode = on\narchive_command = 'test ! -f {rehearsal.archive}/%f && cp %p {rehearsal.archive}/%f'"
    )
    cluster.start()
    cluster.execute("create database tidegate", "postgres")
    fleet, downstream = rehearsal.fleet(cluster), rehearsal.downstream
    fleet.tidegate("migrate")
    for kind, (options, _, _) in KINDS.items():
        fleet.tidegate("kind", "add", kind, "--flow", *options)
    fleet.tidegate("gate", "set", "brief", "--high", "40", "--low", "20")
    fleet.tidegate("config", "set", *SETTINGS)
    fleet.tidegate("webhook", "hosts", "add", downstream.address, "--allow-private")
    fleet.tidegate("webhook", "kind", "payout", f"{downstream.url}/webhook")
    keys = {
        name: json.loads(fleet.tidegate("key", "create", name, "--scope", scope, "--submitter", "shop", "--json"))
        for name, scope in {"shop": "submit", "stolen": "submit", "gateway": "respond"}.items()
    }
    fleet.start_node()
    fleet.start_workers(downstream)
    downstream.api, downstream.key = fleet.api, keys["gateway"]["key"]
    rehearsal.callers = Callers(fleet, keys["shop"]["key"])
    return cluster, fleet, keys["stolen"]


def up_to_the_moment(rehearsal, cluster):
    """Waits until requests are in every state that a restore has to deal with; returns the moment, as text and in seconds."""
    needed = {
        ("payout", "processing"): 15, ("payout", "tx_in_flight"): 1, ("payout", "completed"): 15, ("transfer", "processing"): 40,
        ("single", "processing"): 3, ("report", "receipt_received"): 2,
    }

    def states():
        rows = cluster.rows("select kind, req_status as status, count(*) from tidegate.request group by 1, 2")
        counts = {(row["kind"], row["status"]): row["count"] for row in rows}
        busy = cluster.rows("select distinct kind from tidegate.request where req_status = 'processing' and tx_unsent > 0")
        return {"payout", "transfer"} <= {row["kind"] for row in busy} and all(
            counts.get(state, 0) >= number for state, number in needed.items()
        )

    rehearsal.findings.wait(states, f"requests in these states: {needed}, and some that back off")
    for kind in ("payout", "single") * 4:
        rehearsal.callers.submit(kind, starts_in=45)
    # They start only after the moment, however long the submissions take.
    for _ in range(12):
        rehearsal.callers.submit("brief", starts_in=START)
    for _ in range(12):
        rehearsal.callers.submit("report")
    [now] = cluster.rows("select now()::text as text, extract(epoch from now())::float8 as seconds")
    return now["text"], now["seconds"]


def after_the_moment(rehearsal, cluster, moment):
    """Waits until enough was sent and answered since the moment, and is in the archive."""
    known = {one.id: one.kind for one in rehearsal.callers.accepted if one.answered < moment}
    needed = {"payout": 15, "transfer": 8, "single": 2, "brief": 4, "report": 6, "lost payout": 5, "lost report": 2}
    needed |= {"response": 5, "webhook": 10}

    def sent():
        record = rehearsal.downstream.snapshot()
        counts = collections.Counter(
            one.kind if one.id in known else f"lost {one.kind}" for one in record.executions if one.at > moment
        )
        counts["response"] = sum(one.taken is not None and one.taken > moment for one in record.responses)
        counts["webhook"] = sum(at > moment for at, _, _ in record.webhooks)
        return all(counts[kind] >= number for kind, number in needed.items())

    rehearsal.findings.wait(sent, f"what was sent since the moment: {needed}")
    position = cluster.value("select pg_walfile_name(pg_current_wal_lsn())")
    archived = "select coalesce(last_archived_wal, '') >= '{}' from pg_stat_archiver"
    rehearsal.findings.wait(lambda: cluster.value(archived.format(position)), "the archive of what was sent since the moment")


def restore(rehearsal, name, moment):
    """Restores the backup to the moment, as another cluster."""
    cluster = rehearsal.cluster(name)
    cluster.run(shutil.which("cp"), "-a", rehearsal.clusters / "backup", cluster.folder)
    cluster.configure(
        f"archive_mode = off\nrestore_command = 'cp {rehearsal.archive}/%f %p'\n"
        f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'"
    )
    (cluster.folder / "recovery.signal").touch()
    cluster.start()
    return cluster


def control(rehearsal, moment, record):
    """Restores without the steps of the page: it has to send a second time, and to say wrongly that nothing was executed."""
    findings = rehearsal.findings
    cluster = restore(rehearsal, "control", moment)
    downstream = Downstream(record)
    fleet = rehearsal.fleet(cluster)
    fleet.start(["tidegate", "serve", "--listen", "127.0.0.1:0", "--webhooks", "0"])
    fleet.start_workers(downstream)

    def wrong():
        executions = downstream.snapshot()
        twice = collections.Counter(
            next(one.kind for one in executions.executions if one.id == id)
            for id, number in executions.sends().items() if number > 1
        )
        denied = sum(one["executed"] == "no" and executions.sends()[id] > 0 for id, one in requests(cluster).items())
        return twice["payout"] and twice["transfer"] and denied and (twice, denied)

    twice, denied = findings.wait(wrong, "second executions in the control, which goes through no step")
    findings.check(quarantine(fleet) is None, "files of a cluster are not noticed as a copy")
    fleet.kill()
    cluster.stop()
    findings.counts("control", "requests executed twice", twice.elements())
    findings.number("control", "requests with `executed: no` that were executed", denied)


def repair(rehearsal, cluster, fleet):
    """The steps of the page up to the start of the workers; returns the requests at the moment."""
    findings = rehearsal.findings
    record_sends, end_at_most_once = steps("Restore from a backup")
    at_moment = requests(cluster)
    fleet.tidegate("quarantine", "--reason", "restored from a backup")
    fleet.tidegate("migrate")
    cluster.execute(record_sends)
    fleet.tidegate("config", "set", "single.tx.attempts", "2")
    cluster.execute(end_at_most_once)
    fleet.tidegate("recover", exits=(3,))

    found = violations(fleet, cluster)
    queued = {id for id, one in at_moment.items() if one["status"] == "queued"}
    findings.check(queued, "some requests wait for their check at the moment")
    findings.check(
        found == {"attempts_counted_wrongly": queued},
        f"doctor lists the {len(queued)} queued requests as attempts_counted_wrongly, and nothing else: "
        f"{ {name: len(ids) for name, ids in found.items()} }",
    )
    now = requests(cluster)
    forbidden = [id for id, one in at_moment.items() if one["kind"] == "transfer" and not one["has_ended"]]
    findings.check(
        all((now[id]["code"], now[id]["executed"]) == ("outcome_unknown", "unknown") for id in forbidden),
        "at_most_once requests end as outcome_unknown, and executed is unknown",
    )
    overdue = [id for id, one in now.items() if one["kind"] == "brief" and not at_moment[id]["has_ended"]]
    findings.check(
        overdue and all((now[id]["code"], now[id]["executed"]) == ("deadline_exceeded", "unknown") for id in overdue),
        "requests whose deadline has passed end as deadline_exceeded, and executed is unknown",
    )
    findings.counts(
        "restore", "live requests at the moment", (one["status"] for one in at_moment.values() if not one["has_ended"])
    )
    return at_moment


def open_up(rehearsal, cluster, fleet, moment):
    """Starts nodes and workers, which send nothing; then ends the quarantine, and lets the downstream post reports again."""
    findings, downstream = rehearsal.findings, rehearsal.downstream
    before = downstream.snapshot().calls
    fleet.start_node()
    fleet.start_workers(downstream)
    rehearsal.callers.fleet = fleet
    tried = rehearsal.tried(fleet, cluster)
    because = (quarantine(fleet) or {}).get("because")
    findings.check(because == "restored from a backup", "status says that nothing is sent, and why")
    calls = downstream.snapshot().calls - before
    findings.check(calls == 0, f"nothing is sent or delivered between the restore and adopt, but there were {calls} calls")
    findings.number("restore", "claims tried between the restore and `adopt`", tried)
    findings.number("restore", "calls of the downstream meanwhile", calls)
    fleet.tidegate("adopt")
    downstream.api = fleet.api
    return downstream.post_again(moment)


def submit_again(rehearsal, cluster, moment):
    """Callers poll all that they were promised, and submit what is lost under the same keys; returns what was lost."""
    findings, callers, downstream = rehearsal.findings, rehearsal.callers, rehearsal.downstream
    accepted = list(callers.accepted)
    statuses = {one.id: callers.call("GET", f"/v1/{one.kind}/{one.id}")[0] for one in accepted}
    findings.check(set(statuses.values()) <= {200, 404}, f"polls are answered with 200 or 404: {set(statuses.values())}")
    findings.check(
        all(statuses[one.id] == 200 for one in accepted if one.answered < moment), "what was accepted before the moment is there"
    )
    findings.check(
        all(statuses[one.id] == 404 for one in accepted if one.began > moment), "what was submitted after the moment is lost: 404"
    )
    known = [one for one in accepted if statuses[one.id] == 200]
    for one in known[::20]:
        _, body = callers.call("POST", f"/v1/{one.kind}", one.payload, **{"Idempotency-Key": one.key})
        findings.check(body and body["job_id"] == one.id, "a key that is older than the moment stands for its request")

    lost = [one for one in accepted if statuses[one.id] == 404]
    executed = downstream.snapshot().sends()
    again = []
    for one in lost:
        # The downstream finds its orders by the old id only, but reports by the order.
        if one.kind == "report" or downstream.receipt(one.id)[0] == 404:
            again.append(callers.submit_order(one.kind, one.payload, one.key))
    findings.check(
        all(again) and not {one.id for one in again if one} & {one.id for one in lost},
        "a lost request is submitted again as another",
    )
    findings.number("restore", "requests lost: accepted after the moment", len(lost))
    findings.number("restore", "of these executed before the crash", sum(executed[one.id] > 0 for one in lost))
    findings.number("restore", "of these found by the old id, and not submitted again", len(lost) - len(again))
    return lost


def judge(rehearsal, cluster, at_moment, crash, lost, again, moment):
    """Compares the end with the downstream's record: the one of the crash, and the one of now."""
    findings, record, now = rehearsal.findings, rehearsal.downstream.snapshot(), requests(cluster)
    later = record.executions[len(crash.executions):]
    executed, sent_before = record.sends(), crash.sends()
    waited = {id: one["kind"] for id, one in at_moment.items() if not one["has_ended"]}
    unnoticed = {one.id for one in crash.executions if one.at > moment and one.id in waited}
    found = {id for _, id, was_there in record.lookups[len(crash.lookups):] if was_there}

    twice = [order for order, number in record.sends("order").items() if number > 1]
    findings.check(not twice, f"nothing is executed twice, but these orders were: {twice[:10]}")
    findings.check(unnoticed <= found, "a receipt is asked for, and found, of each request that was executed since the moment")
    findings.check(
        all(now[id]["status"] == "completed" for id in unnoticed if waited[id] in ("payout", "single", "report")),
        "requests that were executed since the moment are completed by their receipts",
    )
    findings.check(
        not [one.id for one in later if waited.get(one.id) in ("transfer", "brief")],
        "neither at_most_once nor overdue requests are sent again",
    )
    unsent = [id for id in waited if waited[id] in ("payout", "single", "report") and not sent_before[id]]
    findings.check(
        {"payout", "single"} <= {waited[id] for id in unsent} and all(executed[id] == 1 for id in unsent),
        "what had not been sent is sent once, after adopt",
    )
    # Every search has had its answer, so what is still unknown was never executed.
    wrong = [(id, one["executed"]) for id, one in now.items() if (one["executed"] == "yes") != (id in record.receipts)]
    findings.check(not wrong, f"executed says what the downstream has done, but not of {wrong[:10]}")
    refused = [id for id in unnoticed if waited[id] == "transfer" and at_moment[id]["unsent"] > 0]
    findings.check(refused, "some at_most_once requests back off at the moment, and are executed since")
    findings.counts("restore", "live at the moment, executed between it and the crash", (waited[id] for id in unnoticed))
    findings.number("restore", "of these found by a search for the receipt", len(unnoticed & found))
    findings.number("restore", "of these executed a second time", sum(executed[id] > 1 for id in unnoticed))
    findings.counts(
        "restore", "live at the moment, not sent before the crash, sent once after `adopt`", (waited[id] for id in unsent)
    )
    findings.counts(
        "restore", "`at_most_once`: ended as `outcome_unknown`; `executed` after the searches",
        (one["executed"] for id, one in now.items() if waited.get(id) == "transfer"),
    )
    findings.number("restore", "of these refused before the moment, executed after it", len(refused))
    findings.counts(
        "restore", "overdue: ended as `deadline_exceeded`; `executed` after the searches",
        (one["executed"] for id, one in now.items() if waited.get(id) == "brief"),
    )
    findings.number("restore", "lost, executed before the crash, recognised by the payload", record.repeated_orders)
    findings.number("restore", "orders executed twice", len(twice))
    responses(rehearsal, cluster, at_moment, lost, again)
    webhooks(rehearsal, at_moment, crash, record)


def responses(rehearsal, cluster, at_moment, lost, again):
    """What became of the responses that were posted again."""
    findings = rehearsal.findings
    gone = {one.id for one in lost}
    to_lost = [one for one in rehearsal.downstream.snapshot().responses if one.id in gone]
    refused = [one for one in to_lost if (one.status, one.outcome) == (404, "unknown_request")]
    kept = [one for one in to_lost if one.outcome == "early"]
    # One that was committed just before the moment, and answered just after it, has been applied already.
    fitting = [one for one in again if one.id in at_moment and not at_moment[one.id]["has_ended"]]
    inbox = cluster.value("select count(*) from tidegate.response_inbox where reference is not null and not late")
    findings.check(
        refused and kept and len(refused) + len(kept) == len(to_lost), "responses to lost requests are refused or kept"
    )
    findings.check(inbox == len(kept), f"responses by reference to lost requests stay in the inbox, which has {inbox}")
    findings.check(fitting and {one.outcome for one in fitting} <= {"completed", "early"}, "other responses are applied")
    findings.number("restore", "responses since the moment to requests of the backup, posted again and applied", len(fitting))
    findings.number("restore", "responses to lost requests: refused by id, kept by reference", f"{len(refused)}, {len(kept)}")


def webhooks(rehearsal, at_moment, crash, record):
    """Ends that were delivered since the moment are delivered again."""
    before = {job: id for _, id, job in crash.webhooks}
    repeated = [(before[job] == id, job) for _, id, job in record.webhooks[len(crash.webhooks):] if job in before]
    another = [job for is_same, job in repeated if not is_same]
    rehearsal.findings.check(another, "some ends are delivered again, under another id")
    rehearsal.findings.check(
        not any(at_moment[job]["has_ended"] for job in another), "what had ended before the moment keeps its webhook-id"
    )
    rehearsal.findings.number("restore", "webhooks delivered again under another `webhook-id`", len(another))
    rehearsal.findings.number("restore", "webhooks delivered again under the same", len(repeated) - len(another))


def restore_to_a_moment(rehearsal):
    findings, downstream = rehearsal.findings, rehearsal.downstream
    findings.say("a database with its fleet, under load, and a backup of it")
    cluster, fleet, stolen = set_up(rehearsal)
    load(rehearsal)
    cluster.run("pg_basebackup", "-D", rehearsal.clusters / "backup", "--checkpoint", "fast", "-d", cluster.url("postgres"))
    text, moment = up_to_the_moment(rehearsal, cluster)
    findings.say(f"the moment is {text}; the load goes on")
    fleet.tidegate("key", "revoke", stolen["id"])
    after_the_moment(rehearsal, cluster, moment)
    findings.wait(lambda: rehearsal.callers.call("GET", "/v1/payout", key=stolen["key"])[0] == 401, "an end of the revoked key")

    findings.say("everything is killed")
    downstream.api = None
    cluster.kill()
    fleet.kill()
    rehearsal.callers.stop()
    time.sleep(2 * SEND)
    crash = downstream.snapshot()
    findings.number("restore", "requests accepted before the crash", len(rehearsal.callers.accepted))
    findings.number("restore", "sends executed before the crash", len(crash.executions))
    time.sleep(max(0.0, moment + START + DEADLINE - time.time()))

    findings.say("a control: the same restore without the steps")
    control(rehearsal, text, downstream.snapshot())
    findings.say("the restore, step by step")
    began = time.monotonic()
    cluster = restore(rehearsal, "restored", text)
    fleet = rehearsal.fleet(cluster)
    at_moment = repair(rehearsal, cluster, fleet)
    again = open_up(rehearsal, cluster, fleet, moment)
    findings.number("restore", "seconds from the start of the restore to `adopt`", round(time.monotonic() - began))
    findings.check(
        rehearsal.callers.call("GET", "/v1/payout", key=stolen["key"])[0] == 200,
        "a key that was revoked since the moment is valid again",
    )
    fleet.tidegate("config", "set", "transfer.per_seconds", "20", "payout.per_seconds", "40")
    findings.say("every request ends")
    settled(rehearsal, cluster)
    lost = submit_again(rehearsal, cluster, moment)
    findings.say("lost requests were submitted again, and end")
    settled(rehearsal, cluster)
    judge(rehearsal, cluster, at_moment, crash, lost, again, moment)
    found = violations(fleet, cluster)
    queued = {id for id, one in at_moment.items() if one["status"] == "queued"}
    findings.check(
        found == {"history_with_a_miscounted_send": queued},
        f"doctor lists nothing but the history of the queued requests: { {name: len(ids) for name, ids in found.items()} }",
    )
    return cluster, fleet, found
