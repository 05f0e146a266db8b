"""The suites. Each is a list of rows; all rows run once a round, one after the other, so that each is near its baseline.

A row is compared with the rows that it names, round by round: `raw` is the same work done by bare rows, `beside` is
Tidegate's own figure without what the suite is about.
"""

from dataclasses import dataclass
from typing import Callable, Optional

import measure
from peers import PEERS


@dataclass(frozen=True)
class Row:
    name: str
    peer: str
    run: Callable
    raw: Optional[str] = None
    beside: Optional[str] = None
    # Its table and line in the report.
    suite: str = ""


@dataclass(frozen=True)
class Options:
    """The command line's selection."""

    length: measure.Length
    processes: tuple = (1, 4)
    jobs: int = 0
    limit: int = 60
    samples: int = 500
    seconds: int = 40
    gap: int = 0


INSERTERS = ["raw1", "pgmq1", "tidegate", "tidegate-accepted", "gw", "boss", "apalis", "gwrs", "sqlxmq", "fang", "procr",
             "pgq", "river", "awa"]
BULKS = [name for name in INSERTERS if name != "awa"] + ["awa", "awa-tuned"]
DRAINERS = ["raw1", "raw100", "pgmq1", "pgmq100", "tidegate", "tidegate-tuned", "gw", "gw-tuned", "boss", "boss-tuned",
            "apalis", "apalis-tuned", "gwrs", "gwrs-tuned", "sqlxmq", "fang", "procr", "procr-tuned", "pgq", "pgq-tuned",
            "river", "river-tuned", "awa", "awa-tuned"]
# Left out: peers that take minutes for 50,000 jobs, and peers whose default and tuned forms are equal.
HELD = ["raw1", "raw100", "pgmq100", "tidegate-tuned", "gw-tuned", "boss-tuned", "apalis-tuned", "gwrs-tuned", "sqlxmq",
        "pgq", "pgq-tuned", "river-tuned", "awa-tuned"]
KEEPERS = [name for name in DRAINERS if PEERS[name].history]
IDLERS = ["raw1", "raw100", "pgmq1", "pgmq-notify", "tidegate", "tidegate-tuned", "gw", "gw-tuned", "boss-tuned",
          "apalis-tuned", "gwrs", "gwrs-tuned", "sqlxmq", "fang-tuned", "procr", "procr-tuned", "pgq", "pgq-tuned",
          "river", "river-tuned", "awa", "awa-tuned"]
# Peers with unique jobs.
KEYED = ["fang", "river", "gwrs", "gw", "boss", "procr", "pgq"]

RAW_SCRIPTS = [
    # name, script, whose tables, jobs that are there, transactions of a client, jobs of a transaction
    ("raw insert 1", "raw_insert1.sql", "raw100", 0, 5000, 1),
    ("raw insert 100", "raw_insert100.sql", "raw100", 0, 300, 100),
    ("raw claim 1 + delete", "raw_claim1.sql", "raw100", 60_000, 6000, 1),
    ("raw claim 1 + mark done", "raw_claim1_done.sql", "raw100", 60_000, 6000, 1),
    ("raw claim 100 + delete", "raw_claim100.sql", "raw100", 250_000, 250, 100),
    ("pgmq send 1", "pgmq_send1.sql", "pgmq1", 0, 5000, 1),
    ("pgmq send_batch 100", "pgmq_send100.sql", "pgmq1", 0, 250, 100),
    ("pgmq read 1 + delete", "pgmq_read1.sql", "pgmq1", 60_000, 4000, 1),
    ("pgmq read 100 + delete batch", "pgmq_read100.sql", "pgmq1", 250_000, 200, 100),
]

SNOOZED = 100_000
LIFE = 100_000


def raw(options):
    return [
        Row(name, peer, lambda script=script, peer=peer, there=there, each=each, jobs=jobs: measure.pgbench_count(
            script, peer, there, each, jobs, options.length), suite="pgbench")
        for name, script, peer, there, each, jobs in RAW_SCRIPTS
    ]


def insert(options):
    return [
        Row(name, name, lambda name=name, c=c: measure.insert1(name, options.length, c), suite="insert1")
        for name in INSERTERS for c in (1, 8)
    ]


def bulk(options):
    return [Row(name, name, lambda name=name: measure.bulk(name, options.length)) for name in BULKS]


def drain(options):
    return [
        Row(name, name, lambda name=name, processes=processes: measure.drain(
            name, options.length, processes, jobs=options.jobs, limit=options.limit))
        for name in DRAINERS for processes in options.processes
    ]


def control(options):
    return [Row(name, name, lambda name=name: measure.drain(
        name, options.length, jobs=options.jobs or 50_000, limit=options.limit)) for name in HELD]


def horizon(options):
    return [Row(name, name, lambda name=name: measure.drain(
        name, options.length, jobs=options.jobs or 50_000, snapshot=True, limit=100)) for name in HELD]


def archive(options):
    return [Row(name, name, lambda name=name: measure.drain(
        name, options.length, jobs=options.jobs, history=True, limit=options.limit)) for name in KEEPERS]


def latency(options):
    return [Row(name, name, lambda name=name: measure.latency(
        name, options.length, options.samples, options.seconds, options.gap)) for name in IDLERS]


SQL, RUST = "raw insert, SQL", "raw insert, Rust"


def baselines(options):
    """The baselines of single submissions: by pgbench, and by a driver."""
    return [
        Row(SQL, "raw100", lambda: measure.pgbench_time("raw_insert1.sql", "raw100", options.length)),
        Row(RUST, "raw1", lambda: measure.insert1("raw1", options.length, 8, seconds=options.length.seconds)),
    ]


def submit(options):
    length, seconds = options.length, options.length.seconds
    return baselines(options) + [
        Row("tidegate, SQL", "tidegate", lambda: measure.pgbench_time("tidegate_submit.sql", "tidegate", length), SQL),
        Row("tidegate, Store", "tidegate", lambda: measure.insert1("tidegate", length, 8, seconds=seconds), RUST),
    ] + [
        Row(name, name, lambda name=name: measure.insert1(name, length, 8, seconds=seconds), RUST)
        for name in ("fang", "river", "gwrs")
    ]


def keyed(options):
    length, seconds = options.length, options.length.seconds

    def with_key(name):
        return lambda: measure.insert1(name, length, 8, keyed=True, seconds=seconds)

    return baselines(options) + [
        Row("raw insert with a key, SQL", "raw100",
            lambda: measure.pgbench_time("raw_insert_keyed.sql", "raw100", length), SQL),
        Row("raw insert with a key, Rust", "raw1", with_key("raw1"), RUST),
        Row("tidegate, SQL", "tidegate",
            lambda: measure.pgbench_time("tidegate_submit_keyed.sql", "tidegate", length), SQL),
        Row("tidegate, Store", "tidegate", with_key("tidegate"), RUST),
    ] + [Row(name, name, with_key(name), RUST) for name in KEYED]


def near(options):
    length, seconds = options.length, options.length.seconds
    return baselines(options) + [
        Row("raw insert, SQL, kept 1,500 deep", "raw100", lambda: measure.near("raw100", length, "raw_insert1.sql"), SQL),
        Row("tidegate far below, SQL", "tidegate",
            lambda: measure.pgbench_time("tidegate_submit.sql", "tidegate", length), SQL),
        Row("tidegate near, SQL", "tidegate",
            lambda: measure.near("tidegate", length, "tidegate_submit.sql"), SQL, "tidegate far below, SQL"),
        Row("tidegate far below, Store", "tidegate",
            lambda: measure.insert1("tidegate", length, 8, seconds=seconds), RUST),
        Row("tidegate near, Store", "tidegate",
            lambda: measure.near("tidegate", length), RUST, "tidegate far below, Store"),
    ]


def snoozed(options):
    length, seconds, many = options.length, options.length.seconds, options.length.count(SNOOZED, of=1000)

    def submit_sql(peer, script, postponed):
        return lambda: measure.pgbench_time(script, peer, length, postponed=postponed)

    def submit_rust(peer, postponed):
        return lambda: measure.insert1(peer, length, 8, postponed=postponed, seconds=seconds)

    def claim(peer, postponed):
        return lambda: measure.drain(peer, length, jobs=50_000, postponed=postponed, limit=options.limit)

    return [
        Row("raw insert, SQL", "raw100", submit_sql("raw100", "raw_insert1.sql", many)),
        Row("tidegate without, SQL", "tidegate", submit_sql("tidegate", "tidegate_submit.sql", 0), "raw insert, SQL"),
        Row("tidegate, SQL", "tidegate", submit_sql("tidegate", "tidegate_submit.sql", many), "raw insert, SQL",
            "tidegate without, SQL"),
        Row("raw insert, Rust", "raw1", submit_rust("raw1", many)),
        Row("tidegate without, Store", "tidegate", submit_rust("tidegate", 0), "raw insert, Rust"),
        Row("tidegate, Store", "tidegate", submit_rust("tidegate", many), "raw insert, Rust", "tidegate without, Store"),
        Row("raw drain by 100", "raw100", claim("raw100", many)),
        Row("tidegate drain without", "tidegate-tuned", claim("tidegate-tuned", 0), "raw drain by 100"),
        Row("tidegate drain", "tidegate-tuned", claim("tidegate-tuned", many), "raw drain by 100",
            "tidegate drain without"),
    ]


def lives(options):
    length, jobs = options.length, options.jobs or LIFE
    raw_life, direct = "raw insert and drain by 100", "tidegate-tuned, direct"

    def life(peer, n=jobs, **more):
        return lambda: measure.life(peer, length, n, limit=options.limit, **more)

    decrypt = {"TIDEGATE_KIND": "public_decrypt"}
    return [
        Row(raw_life, "raw100", life("raw100")),
        Row(direct, "tidegate-tuned", life("tidegate-tuned"), raw_life),
        Row("tidegate, direct", "tidegate", life("tidegate"), raw_life, direct),
        Row("tidegate-tuned, decrypt, response with the receipt", "tidegate-tuned",
            life("tidegate-tuned", jobs // 2, **decrypt), raw_life, direct),
        Row("tidegate-tuned, decrypt, a call for each response", "tidegate-tuned",
            life("tidegate-tuned", jobs // 5, TIDEGATE_RESPOND="1", **decrypt), raw_life, direct),
        Row("tidegate-tuned, decrypt, responses in groups", "tidegate-tuned",
            life("tidegate-tuned", jobs // 2, TIDEGATE_RESPOND="many", **decrypt), raw_life, direct),
        Row("tidegate-tuned, decrypt, three shares in groups", "tidegate-tuned",
            life("tidegate-tuned", jobs // 5, TIDEGATE_RESPOND="shares", TIDEGATE_KIND="user_decrypt"), raw_life, direct),
        Row("gwrs-tuned", "gwrs-tuned", life("gwrs-tuned"), raw_life),
        Row("boss-tuned", "boss-tuned", life("boss-tuned", jobs // 2), raw_life),
    ]


# In the order of execution; those that compare with raw first.
SUITES = {
    "submit": submit, "keyed": keyed, "near": near, "snoozed": snoozed, "lives": lives, "raw": raw, "insert": insert,
    "bulk": bulk, "drain": drain, "latency": latency, "control": control, "horizon": horizon, "archive": archive,
}
# Suites with a fixed number of rounds: the longest, whose figures vary least.
ROUNDS_AT_MOST = {"control": 1, "horizon": 1, "archive": 1}
