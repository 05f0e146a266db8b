// graphile-worker. default: concurrentJobs 24, maxPoolSize 25, all else default.
// tuned: as its own perfTest: + localQueue {size:500, refetchDelay 10 ms}, completeJobBatchDelay 0, failJobBatchDelay 0.
// GW_CONC overrides concurrentJobs. A key: jobKey.
import { createRequire } from "node:module";
import * as C from "./common.mjs";
const require = createRequire(process.env.TIDEGATE_BENCH_PEERS + "/node/x.js");
const { run, makeWorkerUtils, Logger } = require("graphile-worker");
const { Pool } = require("pg");
const logger = new Logger(() => () => {});
const conc = Number(process.env.GW_CONC || 24);
const worker = () => run({
  preset: { worker: {
    connectionString: C.url, concurrentJobs: conc, maxPoolSize: conc + 1, logger,
    ...(C.tuned ? { localQueue: { size: 500, refetchDelay: { durationMs: 10 } }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}),
  } },
  logger, noHandleSignals: true,
  taskList: { noop: async () => { C.hit(); } },
});
const utils = (max) => {
  const pgPool = new Pool({ connectionString: C.url, max });
  pgPool.on("error", () => {}); pgPool.on("connect", (c) => c.on("error", () => {}));
  return makeWorkerUtils({ pgPool, logger });
};
if (C.cmd === "setup") { const u = await utils(2); await u.migrate(); process.exit(0); }
if (C.cmd === "insert1") { const u = await utils(C.opt("c", 8)); await C.insert1(() => u.addJob("noop", { i: 1 }, C.keyed ? { jobKey: C.key() } : {})); process.exit(0); }
if (C.cmd === "bulk") {
  const u = await utils(2);
  await C.bulk((b) => u.addJobs(Array.from({ length: b }, (_, i) => ({ identifier: "noop", payload: { i } }))));
  process.exit(0);
}
if (C.cmd === "work") { await C.readyGo(); await worker(); await C.serve(); }
if (C.cmd === "latency") { await worker(); const u = await utils(2); await C.latency(() => u.addJob("noop", { i: 1 })); }
