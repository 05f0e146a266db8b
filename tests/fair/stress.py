"""Claimers, submitters and cancels at once on a fair queue, with transactions that roll back, leases that run out, duties and kill -9 of
backends; then everything is drained, and a replay of what the turns did checks that each claim served the smallest (tag, no) there was,
and that no key waited longer than its bound. DATABASE_URL; SECONDS (20), KILLS (0), SEED, POSTMASTER (where the log of kills is local)."""
import collections, os, random, signal, sys, threading, time
import psycopg
URL = os.environ["DATABASE_URL"]; SECONDS = float(os.environ.get("SECONDS", "20")); KILLS = int(os.environ.get("KILLS", "0"))
SEED = os.environ.get("SEED", "1"); QUEUE = "payf"; COST = 720720
WITNESS = f"""
create table public.turn_log (id bigserial primary key, tx xid8 default pg_current_xact_id(), op text, key bigint,
  old_tag bigint, old_no bigint, old_idle boolean, tag bigint, no bigint, idle boolean, cost bigint);
create table public.pass_log (id bigserial primary key, tx xid8 default pg_current_xact_id(), locked bigint[], locked_keys bigint[], passed bigint[]);
create function public.log_turn() returns trigger language plpgsql as $$
begin
  insert into public.turn_log (op, key, old_tag, old_no, old_idle, tag, no, idle, cost)
  values (tg_op, coalesce(new.key, old.key), old.tag, old.no, old.idle_at is not null, new.tag, new.no, new.idle_at is not null, coalesce(new.cost, old.cost));
  return null;
end $$;
create trigger log_turn after insert or update or delete on tidegate.turn_{QUEUE} for each row execute function public.log_turn();
do $$
declare v_f text := pg_get_functiondef('tidegate_internal.serve_turns'::regproc);
begin
  execute replace(v_f, '  msg_ids := v_new.msg_ids;',
    'if v_new.locked is not null or v_new.passed is not null then insert into public.pass_log (locked, locked_keys, passed) values (v_new.locked, v_new.locked_keys, v_new.passed); end if; msg_ids := v_new.msg_ids;');
end $$;
"""
stop = threading.Event(); problems = []; counts = collections.Counter()

def connect():
    while True:
        try:
            c = psycopg.connect(URL, autocommit=True); c.execute("set statement_timeout = '30s'"); return c
        except psycopg.Error:
            time.sleep(0.2)

def loop(step, number):
    def run():
        c = connect(); r = random.Random(f"{SEED} {step.__name__} {number}")
        while not stop.is_set():
            try:
                step(c, r)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                counts["broken"] += 1; c = connect()
            except Exception as e:
                problems.append(repr(e)[:400]); stop.set()
    return run

def submit(c, r):
    n = 1 if r.random() < 0.8 else r.randint(2, 60)
    keys = [f"k{min(int(r.paretovariate(0.7)), 60)}" for _ in range(n)]
    with c.transaction():
        c.execute("select from tidegate.submit_group('pay', %s::jsonb[], submitters => %s)", (["{}"] * n, keys))
        if r.random() < 0.05:
            time.sleep(0.15)
    counts["submitted"] += n; time.sleep(0.004)

class Back(Exception): pass

def claim(c, r):
    lease = "1 s" if r.random() < 0.05 else "1 hour"
    try:
        with c.transaction():
            leases = [x[0] for x in c.execute(f"select lease::text from tidegate.claim_tx('{QUEUE}', 'w', %s, %s)", (r.choice([1, 5, 20]), lease))]
            if r.random() < 0.03:
                raise Back
    except Back:
        counts["rolled back"] += 1; return
    if not leases:
        time.sleep(0.005); return
    counts["claimed"] += len(leases); time.sleep(r.random() * 0.01); x = r.random()
    if lease == "1 s" and x < 0.7:
        return
    if x < 0.12:
        c.execute("select from tidegate.settle(%s::tidegate.lease[], '{released}')", (leases,)); return
    if x < 0.17:
        c.execute("select from tidegate.settle(%s::tidegate.lease[], '{retry}', errors => %s::jsonb[], after => %s::interval[], may_have_left => %s)",
            (leases, ['{"code": "x", "message": "", "retryable": true}'] * len(leases), ["0.3 s"] * len(leases), [False] * len(leases))); return
    c.execute("select from tidegate.settle(%s::tidegate.lease[], '{receipt}', responses => %s::jsonb[])", (leases, ["{}"] * len(leases)))

def cancel(c, r):
    with c.transaction():
        found = c.execute(f"select tidegate.message_request_id(message) from pgmq.q_{QUEUE} order by fair_key, msg_id offset %s limit 1", (r.choice([0, 0, 1, 5, 50]),)).fetchone()
        if found:
            c.execute("select tidegate.cancel(%s)", found); counts["cancelled"] += 1
        time.sleep(0.003)
    time.sleep(0.02)

def duty(c, r):
    c.execute(f"select tidegate.fold_turns('{QUEUE}')"); c.execute(f"select tidegate.rescan_queue('{QUEUE}')"); time.sleep(0.3)

a = connect(); a.execute(WITNESS)
threads = [threading.Thread(target=loop(s, i), daemon=True) for s, n in [(claim, 8), (submit, 4), (cancel, 1), (duty, 1)] for i in range(n)]
[t.start() for t in threads]; end = time.time() + SECONDS
for _ in range(KILLS):
    time.sleep(SECONDS / (KILLS + 1))
    try:
        pid = connect().execute("select pid from pg_stat_activity where state <> 'idle' and query like '%tidegate%' and pid <> pg_backend_pid() order by random() limit 1").fetchone()
        if pid:
            os.kill(pid[0], signal.SIGKILL); counts["killed"] += 1
    except psycopg.Error:
        pass
while time.time() < end and not stop.is_set():
    time.sleep(0.1)
stop.set(); [t.join(40) for t in threads]

a = connect(); idle = 0
a.execute("update tidegate.claim set until = clock_timestamp(), lease_ms = 1")
while idle < 40:
    leases = [x[0] for x in a.execute(f"select lease::text from tidegate.claim_tx('{QUEUE}', 'w', 200, '1 hour')")]
    if leases:
        a.execute("select from tidegate.settle(%s::tidegate.lease[], '{receipt}', responses => %s::jsonb[])", (leases, ["{}"] * len(leases))); idle = 0
    else:
        left = a.execute("select count(*) from tidegate.request where req_status not in ('completed', 'failure', 'timed_out')").fetchone()[0]
        if left == 0: break
        idle += 1; a.execute(f"select tidegate.fold_turns('{QUEUE}')"); a.execute(f"select tidegate.rescan_queue('{QUEUE}')"); time.sleep(0.2)
left = a.execute(f"select (select count(*) from tidegate.request where req_status not in ('completed', 'failure', 'timed_out')), (select count(*) from pgmq.q_{QUEUE})").fetchone()
if left != (0, 0): problems.append(f"requests that have not ended, messages left: {left}")
time.sleep(1.2)
for _ in range(3): a.execute(f"select tidegate.fold_turns('{QUEUE}')"); time.sleep(1.1)
net = a.execute(f"select key, sum(n) from (select key, waiting n from tidegate.turn_{QUEUE} union all select key, n from tidegate.arrival_{QUEUE}) x group by key having sum(n) <> 0").fetchall()
if net: problems.append(f"counts that do not net to zero: {net[:5]}")

# Replay: turns change under the lock, so the order of the log is the order of commits.
log = a.execute("select id, tx::text, op, key, old_tag, old_no, old_idle, tag, no, idle, cost from public.turn_log order by id").fetchall()
passes = collections.defaultdict(lambda: (set(), collections.Counter()))
for tx, locked_keys, passed in a.execute("select tx::text, locked_keys, passed from public.pass_log order by id"):
    passes[tx][0].update(passed or []); passes[tx][1].update(locked_keys or [])
turn = {}; since = {}; served = claims = late = 0; worst = 0.0; early = collections.Counter()
n = 0
while n < len(log) and len(problems) < 6:
    tx = log[n][1]; group = []
    while n < len(log) and log[n][1] == tx: group.append(log[n]); n += 1
    passed, locked = passes[tx]; services = []
    for (i, _, op, key, old_tag, old_no, old_idle, tag, no, is_idle, cost) in group:
        if op == "DELETE":
            if turn.get((key, old_tag, old_no)) is None and not old_idle: problems.append(f"event {i}: an active turn of {key} was deleted")
            continue
        if op == "UPDATE" and no == old_no and not old_idle and tag > old_tag:
            for t in range(old_tag, tag, cost): services.append((t, no, key))
        if is_idle: turn.pop(key, None)
        else: turn[key] = (tag, no)
    if not services: continue
    claims += 1; served += len(services); services.sort(); last = services[-1][:2]
    # Whoever waits after the claim comes after all that it has served.
    before = [(k, t) for k, t in turn.items() if t < last and k not in passed]
    if before:
        if sum(locked.values()): early["beside a locked message"] += len(before)
        else: problems.append(f"claim {tx}: served up to {last} before {before[:3]}")
    for t, no, key in services:
        for x in turn:
            if x != key and x not in passed and x not in locked:
                counter = since.setdefault(x, collections.Counter()); counter[key] += 1
                over = counter[key] / 2
                if over > max(worst, 1.0): print(f"over {over}: claim {tx}, waiting {x} {turn[x]}, served {key} {t, no}, locked {dict(locked)}, passed {passed}")
                worst = max(worst, over)
        since[key] = collections.Counter()
    for x in list(since):
        if x not in turn: del since[x]
print(f"{SECONDS:.0f} s, {dict(counts)}; {claims} claims, {served} services replayed in order, {dict(early)}; "
      f"most services of another key between two of a waiting key: {worst:.2f} of the bound; problems: {problems[:6] or 'none'}")
sys.exit(bool(problems))
