"""pgqueuer (asyncpg, uvloop). default: batch_size 10. tuned: batch_size 200, own pool driver of 10. A key: dedupe_key."""
import asyncio, logging, warnings
import asyncpg, uvloop
import common as C
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


async def main():
    if C.CMD == "setup":
        await Queries(AsyncpgDriver(await asyncpg.connect(C.URL))).install()
        return
    if C.CMD == "insert1":
        qs = [Queries(AsyncpgDriver(await asyncpg.connect(C.URL))) for _ in range(C.opt("c", 8))]
        if C.KEYED:
            return await C.insert1(lambda k: qs[k].enqueue(["noop"], [b"1"], [0], dedupe_key=[C.key()]))
        return await C.insert1(lambda k: qs[k].enqueue(["noop"], [b"1"], [0]))
    if C.CMD == "bulk":
        q = Queries(AsyncpgDriver(await asyncpg.connect(C.URL)))
        return await C.bulk(lambda b: q.enqueue(["noop"] * b, [b"1"] * b, [0] * b))
    if C.TUNED:
        drv = AsyncpgPoolDriver(await asyncpg.create_pool(C.URL, min_size=4, max_size=10))
    else:
        drv = AsyncpgDriver(await asyncpg.connect(C.URL))
    p = PgQueuer(drv)

    @p.entrypoint("noop")
    async def noop(job):
        C.hit()

    kw = dict(batch_size=200) if C.TUNED else {}
    if C.CMD == "work":
        C.ready_go()
        w = asyncio.create_task(p.run(**kw))
        await C.serve()
    else:
        w = asyncio.create_task(p.run(**kw))
        q = Queries(AsyncpgDriver(await asyncpg.connect(C.URL)))
        await C.latency(lambda k: q.enqueue(["noop"], [b"1"], [0]))


uvloop.run(main())
