// pg-boss (needs Node >= 22.12: run with the program that the package `node` brings).
// default: work(queue, handler): batchSize 1, poll 2 s. BOSS_BATCH raises batchSize only.
// tuned: batchSize 100, burstWhenBatchFull, localConcurrency 4, poll 0.5 s, useListenNotify + queue notify, max 10 connections.
// A key: singletonKey in a queue with the policy `exclusive`.
import { createRequire } from "node:module";
import * as C from "./common.mjs";
const require = createRequire(process.env.TIDEGATE_BENCH_PEERS + "/node/x.js");
const { PgBoss } = await import(require.resolve("pg-boss"));
const Q = "bench";
const boss = (supervise) => {
  const b = new PgBoss({ connectionString: C.url, max: 10, supervise, schedule: false, ...(C.tuned ? { useListenNotify: supervise } : {}) });
  b.on("error", (e) => console.error(String(e)));
  return b;
};
const start = async (b) => { await b.start(); return b; };
const work = (b) => b.work(Q, C.tuned
  ? { batchSize: 100, burstWhenBatchFull: true, localConcurrency: 4, pollingIntervalSeconds: 0.5 }
  : { batchSize: Number(process.env.BOSS_BATCH || 1) },
  async (jobs) => { C.hit(jobs.length); });
if (C.cmd === "setup") { const b = await start(boss(false)); await b.createQueue(Q, { ...(C.tuned ? { notify: true } : {}), ...(C.keyed ? { policy: "exclusive" } : {}) }); process.exit(0); }
if (C.cmd === "insert1") { const b = await start(boss(false)); await C.insert1(() => b.send(Q, { i: 1 }, C.keyed ? { singletonKey: C.key() } : {})); process.exit(0); }
if (C.cmd === "bulk") { const b = await start(boss(false)); await C.bulk((n) => b.insert(Q, Array.from({ length: n }, (_, i) => ({ data: { i } })))); process.exit(0); }
if (C.cmd === "work") { const b = await start(boss(true)); await C.readyGo(); await work(b); await C.serve(); }
if (C.cmd === "latency") { const b = await start(boss(true)); await work(b); const p = await start(boss(false)); await C.latency(() => p.send(Q, { i: 1 })); }
