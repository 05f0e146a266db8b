"""The peers: how each is started, the query for jobs that are left, the number of jobs.

`Peer.command` is a program that knows the commands of README.md. To add a queue: a driver, and a line in PEERS.
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ["TIDEGATE_BENCH_PEERS"])
CRATES = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry/src"


@dataclass(frozen=True)
class Peer:
    name: str
    group: str
    command: tuple
    # A query: is any work left?
    left: str
    # Jobs of a drain.
    jobs: int
    mode: str = "default"
    environment: dict = field(default_factory=dict)
    # Writes a million finished jobs, where the queue keeps them.
    history: str = ""
    # Inserts jobs by SQL, where the driver's own bulk insert is too slow.
    fill: str = ""
    # A file of SQL that sets the database up, if the driver does not.
    schema: Path = None
    # Milliseconds between the jobs of the latency suite, at most.
    gap: int = 20
    # Jobs of single inserts; jobs and batch of bulk inserts.
    inserts: int = 10_000
    bulk: tuple = (100_000, 1000)

    def missing(self):
        """Why it cannot run here; None if it can."""
        program = Path(self.command[0])
        if not program.exists():
            return f"{program} is not there"
        if self.group in ("node", "python") and not (ROOT / f"{self.group}.installed").exists():
            return f"the packages of {self.group} are not there"
        if self.schema and not self.schema.exists():
            return f"{self.schema} is not there"
        return None

    def with_environment(self, **more):
        return replace(self, environment={**self.environment, **more})


def crate(path):
    """A file inside a crate that Cargo has unpacked: a peer's own migrations."""
    return next(iter(sorted(CRATES.glob("*/" + path))), CRATES / path)


GRAPHILE = "select exists (select from graphile_worker._private_jobs)"

# Jobs that start tomorrow stay, here and below.
RAW = "select exists (select from jobs where state < 2 and run_at < now() + interval '12 hours')"
RAW_HISTORY = """insert into jobs (kind, payload, state, attempts, locked_at)
  select 'noop', '{"i":1}', 2, 1, now() from generate_series(1, 1000000)"""

PGMQ = "select exists (select from pgmq.q_bench)"
PGMQ_HISTORY = """insert into pgmq.a_bench (msg_id, read_ct, enqueued_at, vt, message)
  select g, 1, now(), now(), '{"i":1}' from generate_series(1, 1000000) g"""

BOSS = "select exists (select from pgboss.job where name = 'bench' and state < 'completed')"
BOSS_HISTORY = """insert into pgboss.job (name, data, state, started_on, completed_on, policy)
  select 'bench', '{"i":1}', 'completed', now(), now(), 'standard' from generate_series(1, 1000000)"""

APALIS = "select exists (select from apalis.jobs where status <> 'Done')"
APALIS_HISTORY = """insert into apalis.jobs
    (job, id, job_type, status, attempts, max_attempts, run_at, lock_at, done_at, priority)
  select '1'::bytea, 'old-' || g, 'bench', 'Done', 1, 25, now(), now(), now(), 0 from generate_series(1, 1000000) g"""

PROCRASTINATE = "select exists (select from procrastinate_jobs where status in ('todo', 'doing'))"
PROCRASTINATE_HISTORY = """insert into procrastinate_jobs (queue_name, task_name, args, status, attempts)
  select 'default', 'noop', '{"i":1}', 'succeeded', 1 from generate_series(1, 1000000)"""

PGQUEUER = "select exists (select from pgqueuer)"
PGQUEUER_HISTORY = """insert into pgqueuer_log (job_id, status, priority, entrypoint, aggregated)
  select g, 'successful', 0, 'noop', true from generate_series(1, 1000000) g"""

RIVER = "select exists (select from river_job where state <> 'completed')"
RIVER_HISTORY = """insert into river_job
    (state, attempt, max_attempts, attempted_at, finalized_at, attempted_by, args, kind)
  select 'completed', 1, 25, now(), now(), '{bench}', '{"i":1}', 'noop' from generate_series(1, 1000000)"""

SQLXMQ = "select exists (select from mq_msgs where id <> uuid_nil())"

FANG = "select exists (select from fang_tasks)"
FANG_SCHEMA = crate("fang-0.11.0/postgres_migrations/migrations/2022-08-20-151615_create_fang_tasks/up.sql")
FANG_FILL = """insert into fang_tasks (metadata) select '{"type":"Noop","i":1}' from generate_series(1, %d)"""

# Enqueued ever > finished ever; the view awa.jobs has it too, but takes minutes.
AWA = """select (select sum(awa.sequence_next_value(seq_name) - 1) from awa.queue_enqueue_heads)
  > (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)
  + (select count(*) from awa.done_entries)
  + (select coalesce(sum(pruned_completed_count + pruned_failed_count), 0) from awa.queue_terminal_rollups)"""
# The rows that a million completed jobs leave in slot 0 of its ring, which normally drops them within seconds.
AWA_HISTORY = """
  insert into awa.queue_lanes (queue, priority, next_seq, claim_seq) values ('default', 2, 1, 1);
  insert into awa.queue_enqueue_heads (queue, priority, next_seq) values ('default', 2, 1000001);
  insert into awa.queue_claim_heads (queue, priority, claim_seq) values ('default', 2, 1000001);
  insert into awa.ready_entries
    (ready_slot, ready_generation, job_id, kind, queue, args, priority, lane_seq, payload)
    select 0, 0, 1000000000 + g, 'noop', 'default', '{"i":1}', 2, g,
      '{"tags": [], "errors": [], "metadata": {}, "progress": null}' from generate_series(1, 1000000) g;
  insert into awa.ready_segments
    (ready_slot, ready_generation, queue, priority, first_lane_seq, next_lane_seq, first_run_at)
    select 0, 0, 'default', 2, g, g + 1000, now() from generate_series(1, 1000000, 1000) g;
  insert into awa.receipt_completion_batches
    (ready_slot, ready_generation, claim_slot, queue, priority, completed_count, job_ids, run_leases, lane_seqs,
     attempts, attempted_ats)
    select 0, 0, 0, 'default', 2, 500, array_agg(1000000000 + i), array_agg(1::bigint), array_agg(i),
      array_agg(1::smallint), array_agg(now())
    from generate_series(1, 1000000, 500) g, generate_series(g, g + 499) i group by g;
  insert into awa.ready_claim_attempt_batches
    (ready_slot, ready_generation, queue, priority, claim_slot, first_lane_seq, next_lane_seq, claimed_count,
     lane_ranges)
    select 0, 0, 'default', 2, 0, g, g + 500, 500, int8multirange(int8range(g, g + 500))
    from generate_series(1, 1000000, 500) g"""

TIDEGATE = """select exists (
    select from tidegate.request where req_status <> 'completed' and deadline_at < now() + interval '12 hours'
  )"""


def rust(name, group, left, jobs, tuned=False, **more):
    mode = "tuned" if tuned else "default"
    return Peer(name, group, (str(ROOT / f"target/release/{group}drv"),), left, jobs, mode=mode, **more)


def raw(name, kind, batch, sessions, tuned=False):
    return rust(
        name, "raw", RAW if kind == "raw" else PGMQ, 30_000 if batch == 1 else 200_000, tuned=tuned,
        environment={"RAW_KIND": kind, "RAW_BATCH": str(batch), "RAW_SESSIONS": str(sessions)},
        history=RAW_HISTORY if kind == "raw" else PGMQ_HISTORY,
    )


def node(name, script, left, jobs, tuned=False, **more):
    command = (str(ROOT / "node/node_modules/.bin/node"), str(HERE / "node" / script))
    return Peer(name, "node", command, left, jobs, mode="tuned" if tuned else "default", **more)


def python(name, script, left, jobs, tuned=False, **more):
    command = (str(ROOT / "venv/bin/python"), str(HERE / "py" / script))
    return Peer(name, "python", command, left, jobs, mode="tuned" if tuned else "default", **more)


ALL = [
    raw("raw1", "raw", 1, 8, tuned=True),
    raw("raw100", "raw", 100, 4),
    raw("pgmq1", "pgmq", 1, 8),
    raw("pgmq100", "pgmq", 100, 4),
    raw("pgmq-notify", "pgmq", 1, 8, tuned=True),
    rust("tidegate", "tidegate", TIDEGATE, 60_000),
    rust("tidegate-tuned", "tidegate", TIDEGATE, 200_000, tuned=True),
    rust("tidegate-accepted", "tidegate", TIDEGATE, 60_000, environment={"TIDEGATE_ADMISSION": "accepted"}),
    node("gw", "gw.mjs", GRAPHILE, 20_000),
    node("gw-tuned", "gw.mjs", GRAPHILE, 100_000, tuned=True),
    node("boss", "boss.mjs", BOSS, 20, gap=2000),
    node("boss-tuned", "boss.mjs", BOSS, 100_000, tuned=True, history=BOSS_HISTORY),
    rust("apalis", "apalis", APALIS, 20_000, history=APALIS_HISTORY, gap=200),
    rust("apalis-tuned", "apalis", APALIS, 50_000, tuned=True, history=APALIS_HISTORY, gap=100),
    rust("gwrs", "gwrs", GRAPHILE, 500),
    rust("gwrs-tuned", "gwrs", GRAPHILE, 200_000, tuned=True),
    rust("sqlxmq", "sqlxmq", SQLXMQ, 15_000, bulk=(20_000, 1000),
         environment={"SQLXMQ_MIGRATIONS": str(crate("sqlxmq-0.6.0/migrations"))}),
    rust("fang", "fang", FANG, 5000, schema=FANG_SCHEMA, fill=FANG_FILL, gap=1000, bulk=(10_000, 1)),
    rust("fang-tuned", "fang", FANG, 5000, tuned=True, schema=FANG_SCHEMA, fill=FANG_FILL, gap=100, bulk=(10_000, 1)),
    python("procr", "procr.py", PROCRASTINATE, 3000, history=PROCRASTINATE_HISTORY, inserts=4000, bulk=(30_000, 1000)),
    python("procr-tuned", "procr.py", PROCRASTINATE, 4000, tuned=True, history=PROCRASTINATE_HISTORY, inserts=4000,
           bulk=(30_000, 1000)),
    python("pgq", "pgq.py", PGQUEUER, 30_000, history=PGQUEUER_HISTORY),
    python("pgq-tuned", "pgq.py", PGQUEUER, 50_000, tuned=True, history=PGQUEUER_HISTORY),
    rust("river", "river", RIVER, 4000, history=RIVER_HISTORY, bulk=(50_000, 1000)),
    rust("river-tuned", "river", RIVER, 60_000, tuned=True, history=RIVER_HISTORY, bulk=(50_000, 1000)),
    rust("awa", "awa", AWA, 30_000, history=AWA_HISTORY, bulk=(10_000, 1000)),
    rust("awa-tuned", "awa", AWA, 100_000, tuned=True, history=AWA_HISTORY),
]
PEERS = {peer.name: peer for peer in ALL}
