"""procrastinate. default: concurrency 1, jobs kept. tuned: concurrency 24, pool max 25, delete_jobs='successful'.
A key: queueing_lock."""
import asyncio, logging
import common as C
import procrastinate

logging.disable(logging.CRITICAL)


def app(n):
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=C.URL, min_size=min(n, 4), max_size=n))


async def main():
    n = 25 if C.TUNED else 10
    a = app(n)

    @a.task(name="noop")
    async def noop(i):
        C.hit()

    async with a.open_async():
        if C.CMD == "setup":
            await a.schema_manager.apply_schema_async()
        elif C.CMD == "insert1":
            if C.KEYED:
                await C.insert1(lambda k: noop.configure(queueing_lock=C.key()).defer_async(i=1))
            else:
                await C.insert1(lambda k: noop.defer_async(i=1))
        elif C.CMD == "bulk":
            await C.bulk(lambda b: noop.batch_defer_async(*[{"i": i} for i in range(b)]))
        else:
            kw = dict(install_signal_handlers=False)
            if C.TUNED:
                kw.update(concurrency=24, delete_jobs="successful")
            if C.CMD == "work":
                C.ready_go()
                w = asyncio.create_task(a.run_worker_async(**kw))
                await C.serve()
            else:
                w = asyncio.create_task(a.run_worker_async(**kw))
                await C.latency(lambda k: noop.defer_async(i=1))


asyncio.run(main())
