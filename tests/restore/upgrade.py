"""pg_upgrade: the database is one of another cluster, and sends nothing until it is adopted."""

import time

import postgres
from rehearsal import quarantine, requests, settled, violations


def upgrade(rehearsal, old):
    """A cluster of the new version with the databases of the old one, which is stopped."""
    new = rehearsal.cluster("upgraded", rehearsal.new)
    new.initialise()
    arguments = ["-b", old.programs, "-B", new.programs, "-d", old.folder, "-D", new.folder, "-U", "postgres"]
    place = postgres.own(rehearsal.clusters / "upgrade")
    new.run("pg_upgrade", *arguments, "--check", folder=place)
    new.run("pg_upgrade", *arguments, folder=place)
    new.configure()
    new.start()
    address = ["-h", postgres.HOST, "-p", str(new.port), "-U", "postgres"]
    new.run("vacuumdb", *address, "--all", "--analyze-in-stages", "--missing-stats-only")
    return new


def upgrade_of_postgres(rehearsal, cluster, fleet, found):
    findings, downstream = rehearsal.findings, rehearsal.downstream
    findings.say(f"pg_upgrade from PostgreSQL {postgres.version(rehearsal.old)} to {postgres.version(rehearsal.new)}")
    fleet.stop()
    fleet.start_node()
    waiting = [rehearsal.callers.submit("payout") for _ in range(20)]
    fleet.stop()
    cluster.stop()
    began = time.monotonic()
    upgraded = upgrade(rehearsal, cluster)
    findings.number("upgrade", "seconds from the stop of the old server to the new one", round(time.monotonic() - began))
    findings.number("upgrade", "server", upgraded.value("select current_setting('server_version')"))
    rows = upgraded.execute("begin; select count(*) from tidegate.claim_tx('payout', 'by hand', 5, '1 minute'); rollback")
    findings.check(int(rows) > 0, "a claim takes requests before any node or worker has started")

    fleet = rehearsal.fleet(upgraded)
    before = downstream.snapshot()
    fleet.start_node()
    fleet.start_workers(downstream)
    tried = rehearsal.tried(fleet, upgraded)
    because = (quarantine(fleet) or {}).get("because", "")
    findings.check("it is a copy: it was database" in because, f"another cluster is noticed: {because}")
    calls = downstream.snapshot().calls - before.calls
    findings.check(calls == 0, f"nothing is sent between pg_upgrade and adopt, but there were {calls} calls")
    findings.number("upgrade", "claims tried before `adopt`", tried)
    findings.number("upgrade", "calls of the downstream meanwhile", calls)

    changed = upgraded.value("select count(*) from tidegate.schema_changes()")
    findings.number("upgrade", "objects that `doctor` lists as changed before `migrate`", changed)
    fleet.tidegate("migrate")
    fleet.tidegate("adopt")
    rehearsal.callers.fleet, downstream.api = fleet, fleet.api
    new = rehearsal.callers.submit("report")
    settled(rehearsal, upgraded)
    executed, now = downstream.snapshot().sends(), requests(upgraded)
    findings.check(
        all(executed[one.id] == 1 and now[one.id]["status"] == "completed" for one in [*waiting, new]),
        "what waited during the upgrade, and a new request, are sent once and completed",
    )
    sent = sum(executed[one.id] == 1 for one in waiting)
    findings.number("upgrade", "requests that waited meanwhile, and were sent once", sent)
    left = violations(fleet, upgraded)
    findings.check(left == found, f"doctor finds what it found before the upgrade, but: {list(left)}")
    fleet.stop()
