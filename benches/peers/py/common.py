"""Driver contract helpers (see ../README.md)."""
import asyncio, itertools, json, os, random, sys, time

URL = os.environ["DATABASE_URL"]
TUNED = os.environ.get("PEER_MODE") == "tuned"
KEYED = os.environ.get("PEER_KEYED") == "1"
CMD = sys.argv[1] if len(sys.argv) > 1 else ""


def opt(k, d):
    return type(d)(sys.argv[sys.argv.index("--" + k) + 1]) if "--" + k in sys.argv else d


count = 0
keys = itertools.count()
on_hit = None


def key():
    return f"key-{os.getpid()}-{next(keys)}"


def hit():
    global count
    count += 1
    if on_hit is not None and not on_hit.done():
        on_hit.set_result(time.perf_counter())


def report(n, t0):
    print(json.dumps({"n": n, "secs": time.perf_counter() - t0}), flush=True)


def ready_go():
    print("READY", flush=True)
    sys.stdin.readline()


async def serve():
    stop = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    last = 0
    while True:
        if count != last:
            last = count
            print("C", last, flush=True)
        if stop.done():
            os._exit(0)
        await asyncio.sleep(0.02)


async def insert1(add):
    n, c, longest = opt("n", 10000), opt("c", 8), opt("secs", 3600)
    t0 = time.perf_counter()

    async def one(k):
        done = 0
        while done < n // c and time.perf_counter() - t0 < longest:
            await add(k)
            done += 1
        return done

    report(sum(await asyncio.gather(*(one(k) for k in range(c)))), t0)


async def bulk(add):
    n, b = opt("n", 100000), opt("b", 1000)
    t0 = time.perf_counter()
    for _ in range(n // b):
        await add(b)
    report(n // b * b, t0)


async def latency(add):
    global on_hit
    n, mx, gap = opt("n", 500), opt("secs", 60), opt("gap", 20)
    await asyncio.sleep(opt("warm", 1500) / 1000)
    lat, ins, start = [], [], time.perf_counter()
    for i in range(n + 5):
        await asyncio.sleep((5 + random.random() * gap) / 1000)
        on_hit = asyncio.get_running_loop().create_future()
        t0 = time.perf_counter()
        await add(0)
        t1 = time.perf_counter()
        try:
            s = await asyncio.wait_for(on_hit, 70)
        except asyncio.TimeoutError:
            break
        if i >= 5:
            lat.append(round((s - t0) * 1e6))
            ins.append(round((t1 - t0) * 1e6))
        if time.perf_counter() - start > mx:
            break
    print(json.dumps({"lat_us": lat, "ins_us": ins}), flush=True)
    os._exit(0)
