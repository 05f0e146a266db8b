"""Random steps on a fair queue beside an exact model of start-time fair queueing, by Tidegate's own functions."""
import os, random, heapq, sys, psycopg
STEPS=int(os.environ.get("STEPS","5000")); SEED=int(os.environ.get("SEED","1")); U=720720
class Key:
    def __init__(s): s.tag=0; s.no=0; s.active=False; s.msgs=[]
class Model:
    """Turns, and the journal: urgent and quiet rows, as the spec has them."""
    def __init__(m): m.k={}; m.no=0; m.urgent=[]; m.time=0; m.idle=set()
    def key(m,k): return m.k.setdefault(k,Key())
    def ready(m): return [x for x in m.k.values() if x.active]
    def v(m):
        r=m.ready()
        return max([m.time]+([min(x.tag for x in r)] if r else [x.tag for x in m.k.values() if not x.active]))
    def arrive(m,k,ids):
        x=m.key(k)
        for i in ids: heapq.heappush(x.msgs,i)
        if not x.active: m.urgent.append((min(ids),k))
    def put_back(m,k,ids):
        x=m.key(k)
        for i in ids: heapq.heappush(x.msgs,i)
        m.urgent.append((min(ids),k))
    def fold(m):
        now=m.v(); first={}
        for i,k in m.urgent: first[k]=min(i,first.get(k,i))
        m.urgent=[]
        for k,i in sorted(first.items(),key=lambda e:e[1]):
            x=m.key(k)
            if not x.active and x.msgs: x.active=True; x.tag=max(x.tag,now); m.no+=1; x.no=m.no
    def claim(m,n):
        m.fold(); r=[x for x in m.ready()]
        if r: m.time=max(m.time,min(x.tag for x in r))
        out=[]
        h=[(x.tag,x.no,j) for j,x in enumerate(r)]; heapq.heapify(h)
        while h and len(out)<n:
            _,_,j=heapq.heappop(h); x=r[j]
            if not x.msgs: x.active=False; continue
            out.append(heapq.heappop(x.msgs)); x.tag+=U
            if x.msgs: heapq.heappush(h,(x.tag,x.no,j))
            else: x.active=False
        return out
rnd=random.Random(SEED); m=Model(); owner={}; held={}; snoozed={}
with psycopg.connect(os.environ["DATABASE_URL"],autocommit=True) as c:
    q=lambda s,*a: c.execute(s,a).fetchall()
    c.execute("set synchronous_commit=off")
    served=0
    def check():
        bad=q("""with w as (select fair_key k, count(*) n from pgmq.q_payf where vt <= clock_timestamp() group by 1),
          t as (select key k, sum(waiting) n from tidegate.turn_payf group by 1), a as (select key k, sum(n) n from tidegate.arrival_payf where at <= clock_timestamp() or first is null and at <= clock_timestamp() + interval $$2 s$$ group by 1)
          select k, w.n, t.n, a.n from w full join t using (k) full join a using (k) where coalesce(w.n,0) <> coalesce(t.n,0)+coalesce(a.n,0)""")
        return bad
    for step in range(STEPS):
        x=rnd.random(); keys=1+int(40*rnd.random()**3)
        if x<0.30:
            ks=[rnd.randrange(keys)] if rnd.random()<0.8 else [rnd.randrange(keys) for _ in range(rnd.randrange(2,40))]
            us=[r[0] for r in q("select id from tidegate.submit_group('pay', %s::jsonb[], submitters => %s)",["{}"]*len(ks),[f"k{k}" for k in ks])]
            ids=q("select msg_id, id from tidegate.request where id = any(%s) order by msg_id",us)
            by={}
            for (i,u),k in zip(ids,ks): owner[i]=(k,u); by.setdefault(k,[]).append(i)
            for k,l in by.items(): m.arrive(k,l)
        elif x<0.60:
            n=rnd.choice([1,1,2,5,20,100])
            back = rnd.random()<0.05
            if back: c.execute("begin")
            rows=q("select id, lease::text from tidegate.claim_tx('payf','w',%s,'1 hour')",n)
            num=dict(q("select id, msg_id from tidegate.request where id = any(%s)",[r[0] for r in rows]))
            rows=[(num[r[0]],r[1]) for r in rows]
            got=[r[0] for r in rows]
            if back:
                import copy; m2=copy.deepcopy(m); want=m2.claim(n); assert got==want,(step,"in a transaction that rolls back",n,got,want)
                c.execute("rollback"); continue
            want=m.claim(n)
            assert got==want,(step,n,got,want,[(k,v.tag,v.no,v.active,len(v.msgs)) for k,v in m.k.items()],q("select * from tidegate.turn_payf order by tag,no"))
            for r in rows: held[r[0]]=r[1]
            served+=len(got)
        elif x<0.80 and held:
            some=rnd.sample(list(held),min(len(held),rnd.choice([1,5,20])))
            leases=[held.pop(i) for i in some]; y=rnd.random()
            if y<0.6: assert len(q("select * from tidegate.settle(%s::tidegate.lease[], '{receipt}', responses => %s::jsonb[])",leases,["{}"]*len(leases)))==len(leases)
            elif y<0.9:
                r=q("select * from tidegate.settle(%s::tidegate.lease[], '{released}')",leases); assert len(r)==len(leases)
                by={}
                for i in some: by.setdefault(owner[i][0],[]).append(i)
                for k,l in by.items(): m.put_back(k,l)
            else:
                r=q("select * from tidegate.settle(%s::tidegate.lease[], '{retry}', errors => %s::jsonb[], after => %s::interval[], may_have_left => %s)",leases,['{"code":"x","message":"","retryable":true}']*len(leases),["1 hour"]*len(leases),[False]*len(leases))
                for row,i in zip(r,some): pass
                for i in some: snoozed[i]=1
        elif x<0.86:
            w=[v for v in m.k.values() if len(v.msgs)>1]
            if w:
                v=rnd.choice(w); i=rnd.choice(v.msgs)
                v.msgs.remove(i); heapq.heapify(v.msgs); q("select tidegate.cancel(%s)",owner[i][1])
        elif x<0.90:
            q("select tidegate.fold_turns('payf')"); m.fold(); t=m.v()
            if not m.ready(): m.time=max(m.time,t)
        elif x<0.92: q("select tidegate.rescan_queue('payf')")
        if step%int(os.environ.get("EVERY","50"))==0:
            b=check(); assert not b,(step,x,b)
    print(f"{STEPS} steps, seed {SEED}: {served} served in the model's order")
