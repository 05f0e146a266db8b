"""The measurements. Each has a database of its own, which it drops; each returns what goes into the results."""

import json
import math
import os
import select
import subprocess
import time
from contextlib import contextmanager, suppress

import database
from peers import HERE, PEERS, ROOT

# Default seconds of a timed run: each of its sessions plans its statements first.
USUAL_SECONDS = 10
# Below this, runs with a fixed count are shortened, too.
WHOLE_SECONDS = 5


class Length:
    """Length of runs: `seconds` for timed ones; with few seconds, runs with a fixed count shrink in proportion."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.share = min(1, seconds / WHOLE_SECONDS)

    def count(self, n, of=1):
        return max(of, round(n * self.share) // of * of)

    def limit(self, seconds):
        return max(15, seconds * self.share)


def environment(peer, name):
    more = {"DATABASE_URL": database.url(name), "PEER_MODE": peer.mode, "NODE_ENV": "production",
            "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **peer.environment, **more}


def call(peer, name, *arguments, timeout=180, **more):
    """Runs a command of the driver to its end; the line of JSON that it prints."""
    started = start(peer, name, *arguments, **more)
    return finish(started, timeout)


def start(peer, name, *arguments, **more):
    peer = peer.with_environment(**more)
    return subprocess.Popen([*peer.command, *map(str, arguments)], env=environment(peer, name), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process, timeout=180):
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    if process.returncode:
        raise RuntimeError(f"{process.args}: {errors[-800:]}")
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


@contextmanager
def fresh(peer_name, **more):
    """A database of the peer's, set up."""
    peer = PEERS[peer_name].with_environment(**more)
    name = "peer_" + peer_name.replace("-", "_")
    database.make(name)
    try:
        if peer.schema:
            with database.Session(name) as session:
                session.ask(peer.schema.read_text())
        else:
            call(peer, name, "setup")
        yield peer, name
    finally:
        database.drop(name)


def fill(peer, name, jobs, size=1000):
    if peer.fill:
        with database.Session(name) as session:
            session.ask(peer.fill % jobs)
    else:
        size = min(size, jobs)
        call(peer, name, "bulk", "--n", jobs, "--b", size, timeout=600, PEER_FILL="1")


def insert_snoozed(peer, name, jobs):
    """Jobs that are to start tomorrow."""
    call(peer, name, "bulk", "--n", jobs, "--b", min(1000, jobs), timeout=600, PEER_SNOOZED="1")


def per_10k(seconds, jobs):
    """None where it is unknown: JSON has no NaN."""
    return None if math.isnan(seconds) else seconds / max(jobs, 1) * 1e4


def insert1(peer_name, length, in_flight, keyed=False, postponed=0, seconds=None):
    """Single inserts: the peer's count, or as many as `seconds` allow."""
    more = {"PEER_KEYED": "1"} if keyed else {}
    with fresh(peer_name, **more) as (peer, name):
        if postponed:
            insert_snoozed(peer, name, postponed)
        database.tidy(name)
        n = length.count(peer.inserts // (1 if in_flight > 1 else 4), of=in_flight)
        arguments = ["--n", n] if seconds is None else ["--n", 10**9, "--secs", seconds]
        before = database.server_seconds()
        done = call(peer, name, "insert1", "--c", in_flight, *arguments, timeout=180 + (seconds or 0))
        used = database.server_seconds() - before
    return dict(c=in_flight, n=done["n"], rate=done["n"] / done["secs"], pgcpu10k=per_10k(used, done["n"]))


def bulk(peer_name, length):
    with fresh(peer_name) as (peer, name):
        n, size = peer.bulk
        before = database.server_seconds()
        done = call(peer, name, "bulk", "--n", length.count(n, of=size), "--b", size)
        used = database.server_seconds() - before
    return dict(n=done["n"], b=size, rate=done["n"] / done["secs"], pgcpu10k=per_10k(used, done["n"]))


class Worker:
    """A driver that works: READY, a line that lets it start, `C <handled>`, a line that ends it."""

    def __init__(self, peer, name, *arguments):
        self.errors = open(ROOT / "logs/drivers.log", "ab")
        self.process = subprocess.Popen([*peer.command, *map(str, arguments or ["work"])], env=environment(peer, name),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.output = self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self.rest, self.handled, self.ready = b"", 0, False

    def read(self):
        try:
            read = os.read(self.output.fileno(), 1 << 16)
        except BlockingIOError:
            return
        *lines, self.rest = (self.rest + read).split(b"\n")
        for line in lines:
            if line.startswith(b"C "):
                self.handled = int(line[2:])
            elif line.strip() == b"READY":
                self.ready = True

    def say(self, line):
        with suppress(OSError):
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()

    def end(self):
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with suppress(OSError):
            self.process.stdin.close()
        self.output.close()
        self.errors.close()


class Workers:
    def __init__(self, peer, name, count, *arguments):
        self.all = [Worker(peer, name, *arguments) for _ in range(count)]
        deadline = time.monotonic() + 60
        while not all(worker.ready for worker in self.all):
            self.read(0.1)
            if time.monotonic() > deadline or any(worker.process.poll() is not None for worker in self.all):
                self.stop()
                raise RuntimeError("workers are not ready, see logs/drivers.log")

    def read(self, patience):
        readable, _, _ = select.select([worker.output for worker in self.all], [], [], patience)
        for worker in self.all:
            if worker.output in readable:
                worker.read()
        # A pipe whose process has ended is always readable.
        if readable and any(worker.process.poll() is not None for worker in self.all):
            time.sleep(0.02)

    def go(self):
        for worker in self.all:
            worker.say(b"GO")

    def handled(self):
        return sum(worker.handled for worker in self.all)

    def seconds(self):
        return sum(database.processor_seconds(worker.process.pid) for worker in self.all)

    def stop(self):
        for worker in self.all:
            worker.say(b"STOP")
        for worker in self.all:
            worker.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Watch:
    """Waits until `n` jobs were handled and the database has none left."""

    def __init__(self, workers, monitor, peer, n, limit):
        self.trace, self.timeout = [(0.0, 0)], False
        already = workers.handled()
        self.begun = changed = time.monotonic()
        last = 0
        while True:
            workers.read(0.02)
            now, handled = time.monotonic(), workers.handled() - already
            if handled != last:
                last, changed = handled, now
                self.trace.append((now - self.begun, handled))
            # A peer that handles some jobs twice stops reporting below `n`.
            if (handled >= n or now - changed > 2) and not monitor.is_true(peer.left):
                break
            if now - self.begun > limit:
                self.timeout = True
                break
        self.seconds = time.monotonic() - self.begun
        self.handled, self.done = last, min(last, n)

    def rate(self, first, last):
        """Jobs per second between two shares of all."""
        at = [next((second for second, handled in self.trace if handled >= share * self.done), None)
              for share in (first, last)]
        if None in at or at[1] <= at[0]:
            return None
        return (last - first) * self.done / (at[1] - at[0])


def wal(session):
    return session.number("select pg_current_wal_insert_lsn() - '0/0'")


def drain(peer_name, length, processes=1, jobs=None, history=False, snapshot=False, postponed=0, limit=100):
    """From the moment that connected workers may start until all was handled and nothing is left."""
    with fresh(peer_name) as (peer, name):
        n = length.count(jobs or peer.jobs, of=min(1000, jobs or peer.jobs))
        if history:
            with database.Session(name) as session:
                session.ask("set synchronous_commit = off")
                session.ask(peer.history)
        if postponed:
            insert_snoozed(peer, name, postponed)
        fill(peer, name, n)
        database.tidy(name)
        with database.Session(name) as monitor, database.Session(name) as other:
            if snapshot:
                other.ask("begin isolation level repeatable read")
                other.ask("select count(*) from pg_class")
            with Workers(peer, name, processes) as workers:
                time.sleep(0.3)
                before = database.server_seconds(), workers.seconds(), wal(monitor)
                workers.go()
                watch = Watch(workers, monitor, peer, n, length.limit(limit))
                server, clients = database.server_seconds() - before[0], workers.seconds() - before[1]
                written = wal(monitor) - before[2]
    done = watch.done
    return dict(procs=processes, n=n, done=done, handled=watch.handled, secs=watch.seconds, timeout=watch.timeout,
                rate=done / watch.seconds, first20=watch.rate(0, 0.2), last20=watch.rate(0.8, 1),
                pgcpu10k=per_10k(server, done), clicpu10k=per_10k(clients, done), wal=written / max(done, 1))


# Jobs that are there, and counted by ANALYZE, before a worker starts: plans made on tables that were never analyzed make some
# claims quadratic.
WARM = 2000


def life(peer_name, length, jobs, limit=100, **more):
    """From the first of the bulk inserts of two sessions until all was handled, a worker running all the time."""
    with fresh(peer_name, **more) as (peer, name):
        each = length.count(jobs // 2, of=1000)
        fill(peer, name, WARM)
        database.tidy(name)
        with database.Session(name) as monitor, Workers(peer, name, 1) as workers:
            workers.go()
            if Watch(workers, monitor, peer, WARM, 30).timeout:
                raise RuntimeError(f"{workers.handled()} of the first {WARM} jobs were handled within 30 s")
            time.sleep(0.5)
            before = database.server_seconds(), wal(monitor)
            submitters = [start(peer, name, "bulk", "--n", each, "--b", 1000) for _ in range(2)]
            watch = Watch(workers, monitor, peer, 2 * each, length.limit(limit))
            server, written = database.server_seconds() - before[0], wal(monitor) - before[1]
            for submitter in submitters:
                finish(submitter)
    done = watch.done
    return dict(n=2 * each, done=done, handled=watch.handled, secs=watch.seconds, timeout=watch.timeout,
                rate=done / watch.seconds, pgcpu10k=per_10k(server, done), wal=written / max(done, 1))


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] / 1000 if values else None


def latency(peer_name, length, samples, seconds, gap=0):
    with fresh(peer_name) as (peer, name):
        gap = gap or peer.gap
        database.tidy(name)
        seconds = max(2, round(seconds * length.share))
        told = call(peer, name, "latency", "--n", length.count(samples), "--secs", seconds, "--gap", gap,
                    timeout=seconds + 100)
    found = told["lat_us"]
    return dict(gap=gap, n=len(found), p50=quantile(found, 0.5), p95=quantile(found, 0.95),
                p99=quantile(found, 0.99), ins50=quantile(told["ins_us"], 0.5))


def pgbench(name, script, *length, clients=8):
    """Transactions per second of eight prepared sessions, and how many there were."""
    command = database.program("pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", "2", *map(str, length),
                               "-f", str(HERE / "sql" / script), name)
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr[:800])
    per_second = next(line for line in run.stdout.splitlines() if line.startswith("tps"))
    done = next(line for line in run.stdout.splitlines() if "actually processed" in line)
    return float(per_second.split()[2]), int(done.split(":")[1].split("/")[0])


def pgbench_count(script, peer_name, prepare, transactions, jobs_each, length):
    """A number of transactions of each client, of `jobs_each` jobs, with `prepare` jobs in the table if it claims some."""
    with fresh(peer_name) as (peer, name):
        if prepare:
            fill(peer, name, length.count(prepare, of=1000))
        database.tidy(name)
        before = database.server_seconds()
        per_second, done = pgbench(name, script, "-t", length.count(transactions))
        used = database.server_seconds() - before
    return dict(c=8, n=done * jobs_each, rate=per_second * jobs_each, pgcpu10k=per_10k(used, done * jobs_each))


def pgbench_time(script, peer_name, length, postponed=0, **more):
    with fresh(peer_name, **more) as (peer, name):
        if postponed:
            insert_snoozed(peer, name, postponed)
        database.tidy(name)
        before = database.server_seconds()
        per_second, done = pgbench(name, script, "-T", length.seconds)
        used = database.server_seconds() - before
    return dict(c=8, n=done, rate=per_second, pgcpu10k=per_10k(used, done))


DEEP = 1500
MARKS = "2000/1000"


def near(peer_name, length, script=None):
    """Single inserts into a queue that a worker keeps 1,500 deep: by pgbench, or by the driver. Refusals do not count."""
    more = {"TIDEGATE_MARKS": MARKS} if peer_name.startswith("tidegate") else {}
    with fresh(peer_name, **more) as (peer, name):
        fill(peer, name, DEEP, size=500)
        database.tidy(name)
        with database.Session(name) as monitor, Workers(peer, name, 1, "keep", "--depth", DEEP) as keeper:
            keeper.go()
            before = database.server_seconds()
            if script:
                per_second, tried = pgbench(name, script, "-T", length.seconds)
            else:
                told = call(peer, name, "insert1", "--c", 8, "--n", 10**9, "--secs", length.seconds,
                            timeout=180 + length.seconds)
                per_second, tried = told["n"] / told["secs"], told["n"]
            server = database.server_seconds() - before
            keeper.read(0.1)
            accepted = tried
            # The driver of Tidegate retries until it is accepted; pgbench does not.
            if script and peer_name.startswith("tidegate"):
                accepted = int(monitor.number("select count(*) from tidegate.request")) - DEEP
            served = keeper.handled()
    return dict(c=8, n=accepted, refused=tried - accepted, served=served, rate=per_second * accepted / max(tried, 1),
                pgcpu10k=per_10k(server, accepted))
