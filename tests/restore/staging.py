"""A copy of the database for staging, which sends nothing until it is adopted."""

import collections
import re

from downstream import Downstream
from fleet import Callers
from rehearsal import live, load, quarantine, settled, violations


def copy_for_staging(rehearsal, cluster, fleet):
    """Dumps the database under load and restores it elsewhere, where other programs start on it."""
    findings, downstream = rehearsal.findings, rehearsal.downstream
    findings.say("a copy for staging, under load")
    fleet.tidegate("config", "set", "payout.per_seconds", "10")
    downstream.takes_webhooks = False
    load(rehearsal)
    pending = "select count(*) from tidegate.webhook_delivery where state = 'pending'"
    findings.wait(lambda: cluster.value(pending) >= 5 and live(cluster, ["payout"]) >= 15, "webhooks that cannot be delivered")
    dump = rehearsal.clusters / "dump"
    cluster.run("pg_dump", "-Fc", "-f", dump, "-d", cluster.url())
    downstream.takes_webhooks = True

    copy = rehearsal.cluster("staging")
    copy.initialise()
    copy.configure()
    copy.start()
    copy.execute("create database tidegate", "postgres")
    # The roles of the rights are missing in this cluster.
    restored = copy.run("pg_restore", "-d", copy.url(), dump, succeeds=False)
    errors = re.findall(r"error: .*?: ERROR: +(.*)", restored.stderr)
    missing = {one for one in errors if re.fullmatch(r'role "tidegate_\w+" does not exist', one)}
    findings.check(
        set(errors) == missing and len(missing) == 5, f"pg_restore misses the five roles, and nothing else: {set(errors)}"
    )
    staging = rehearsal.fleet(copy)
    staging.tidegate("migrate")
    findings.check("schema_changed" not in violations(staging, copy), "migrate makes again what the dump lacks")
    findings.number("staging", "rights that pg_restore could not grant, and `migrate` did", len(errors))
    return copy, staging, pending


def staging_copy(rehearsal, cluster, fleet):
    findings, downstream = rehearsal.findings, rehearsal.downstream
    began = downstream.snapshot()
    copy, staging, pending = copy_for_staging(rehearsal, cluster, fleet)
    receiver = Downstream()
    waiting, undelivered = live(copy), copy.value(pending)
    deliveries = "select coalesce(sum(attempt), 0) from tidegate.webhook_delivery"
    attempts = copy.value(deliveries)
    production = len(downstream.snapshot().executions)
    staging.start_node()
    staging.start_workers(receiver)
    tried = rehearsal.tried(staging, copy, 20)
    findings.wait(lambda: len(downstream.snapshot().executions) >= production + 20, "sends of the original meanwhile")
    findings.check(quarantine(staging) is not None, "status of the copy says that nothing is sent")
    findings.check(quarantine(fleet) is None, "the original is not quarantined")
    calls = receiver.snapshot().calls
    findings.check(calls == 0, f"a copy sends nothing, but there were {calls} calls")
    findings.check(copy.value(deliveries) == attempts, "a copy delivers nothing")
    findings.number("staging", "live requests, and webhooks not yet delivered, in the copy", f"{waiting}, {undelivered}")
    findings.number("staging", "claims tried on the copy before `adopt`", tried)
    findings.number("staging", "calls of its downstream meanwhile", calls)
    findings.number("staging", "sends of the original meanwhile", len(downstream.snapshot().executions) - production)

    findings.say("the copy is adopted, with receivers of its own")
    staging.tidegate("webhook", "hosts", "remove", downstream.address)
    staging.tidegate("webhook", "hosts", "add", receiver.address, "--allow-private")
    staging.tidegate("webhook", "kind", "payout", f"{receiver.url}/webhook")
    staging.tidegate("adopt")
    callers = Callers(staging, rehearsal.callers.key)
    callers.submit("payout")
    findings.wait(lambda: len(receiver.snapshot().executions) >= 15 and receiver.snapshot().webhooks, "sends of the adopted copy")
    findings.number("staging", "sends of the copy after `adopt`", len(receiver.snapshot().executions))
    staging.kill()
    copy.stop()
    rehearsal.callers.stop()
    settled(rehearsal, cluster)
    record = downstream.snapshot()
    twice = [id for id, number in record.sends().items() if number > 1]
    findings.check(not twice, f"the receivers of the original get every request once: {twice}")
    delivered = collections.Counter(id for _, id, _ in record.webhooks[len(began.webhooks):])
    findings.check(max(delivered.values()) == 1, "the receivers of the original get every webhook once")
    findings.number("staging", "webhooks of the original meanwhile", len(delivered))
    findings.number("staging", "of these delivered twice", sum(number > 1 for number in delivered.values()))
