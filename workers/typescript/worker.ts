// A worker: drains queues until it is stopped.

import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { Database, DatabaseClock, now } from "./database.js";
import type { Check, FindReceipt, Json, Send } from "./outcomes.js";
import { QueueLoop } from "./queue-loop.js";
import type { Stage } from "./settlement.js";

export type * from "./outcomes.js";

export interface WorkerOptions {
  url: string;
  queues: string[];
  checks?: Record<string, Check>;
  sends?: Record<string, Send>;
  /** Searches for the receipts of earlier sends. Without one, a send that may have left is repeated without asking. */
  receipts?: Record<string, FindReceipt>;
  name?: string;
  /** Calls at once per queue: 20. */
  concurrency?: number;
  /** The length of a lease: 30 s. */
  lease?: number;
  /** How often an idle queue is claimed from without a notification: 2 s. */
  poll?: number;
  /** How long calls may go on after a stop: 20 s. */
  grace?: number;
  /** Where to LISTEN, if `url` leads to a pooler in transaction mode. */
  listenUrl?: string;
  log?: Pick<Console, "debug" | "info" | "warn" | "error">;
}

/** Drains queues. Requests of kinds that have no stage here are left to other workers. */
export class Worker {
  readonly options: Required<Omit<WorkerOptions, "listenUrl">>;
  readonly database: Database;
  readonly clock = new DatabaseClock();
  private readonly ending = new AbortController();
  private readonly listenUrl: string | undefined;
  private loops = new Map<string, QueueLoop>();

  constructor(options: WorkerOptions) {
    this.options = {
      checks: {},
      sends: {},
      receipts: {},
      name: `${hostname()}-${process.pid}-${randomBytes(2).toString("hex")}`,
      concurrency: 20,
      lease: 30,
      poll: 2,
      grace: 20,
      log: { ...console, debug: () => {} },
      ...options,
    };
    this.listenUrl = options.listenUrl;
    // An answer that takes half a lease is too late for its claim or its settle.
    this.database = new Database(options.url, Math.min(20, this.options.lease / 2));
    setMaxListeners(0, this.ending.signal);
  }

  get stopping(): boolean {
    return this.ending.signal.aborted;
  }

  /** Ends claiming. `run` returns when the calls have ended, or were released after `grace`. */
  readonly stop = (): void => {
    this.ending.abort();
    for (const loop of this.loops.values()) loop.wake.notify();
  };

  /** Works until `stop`, SIGTERM or SIGINT. Throws if it cannot work: for an unknown queue, or without a right. */
  async run(): Promise<void> {
    const { log, name, queues } = this.options;
    try {
      for (const queue of queues) this.loops.set(queue, new QueueLoop(this, queue, ...(await this.stageOf(queue))));
      await this.clock.read(this.database);
      for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, this.stop);
      const others = [this.listen(), this.upkeep()];
      log.info(`worker ${name} drains ${queues.join(", ")}`);
      // The first error stops the others, too.
      const running = [...this.loops.values()].map((loop) => loop.run().finally(this.stop));
      const ended = await Promise.allSettled([...running, ...others]);
      for (const end of ended) if (end.status === "rejected") throw end.reason;
      log.info(`worker ${name} has stopped`);
    } finally {
      for (const signal of ["SIGTERM", "SIGINT"] as const) process.off(signal, this.stop);
      await this.database.close();
    }
  }

  /** Stores a response that comes later than its receipt. Repeat it until it succeeds. */
  async respond(reference: string, response: Json, part?: string, accept?: boolean): Promise<string> {
    const values = [JSON.stringify(response), reference, part, accept];
    const sql = "select outcome from tidegate.respond($1, null, $2, $3, $4)";
    return (await this.database.rows<{ outcome: string }>(sql, values))[0]!.outcome;
  }

  /** Waits, and returns whether the worker is stopping. */
  async stopsWithin(seconds: number): Promise<boolean> {
    await sleep(Math.max(seconds, 0) * 1000, undefined, { signal: this.ending.signal }).catch(() => {});
    return this.stopping;
  }

  private async stageOf(queue: string): Promise<[Stage, string[]]> {
    const [row] = await this.database.rows<{ stage: Stage; exactly_once: string[] }>(
      `select q.stage::text, array(
         select p.kind from tidegate.policy as p where p.stage = q.stage and p.semantics = 'exactly_once'
       ) as exactly_once
       from tidegate.queue as q where q.name = $1`,
      [queue],
    );
    if (!row) throw new Error(`there is no queue "${queue}"; see \`select name, stage from tidegate.queue\``);
    const kinds = Object.keys(row.stage === "tx" ? this.options.sends : this.options.checks);
    if (!kinds.length) {
      throw new Error(`queue "${queue}" needs a ${row.stage} stage, and this worker has none for any kind`);
    }
    const kind = kinds.find((name) => row.stage === "tx" && row.exactly_once.includes(name));
    if (kind) {
      throw new Error(
        `kind "${kind}" has exactly_once semantics, and this worker cannot write an effect with the receipt: ` +
          "set its semantics to at_least_once, or leave it to another worker",
      );
    }
    return [row.stage, kinds];
  }

  /** Wakes the loops by notifications. These are hints: without them the loops poll. */
  private async listen(): Promise<void> {
    do {
      const client = this.database.client(this.listenUrl);
      try {
        const lost = new Promise<never>((_, reject) => client.on("error", reject));
        lost.catch(() => {});
        client.on("notification", ({ payload }) => this.loops.get(payload ?? "")?.wake.notify());
        await client.connect();
        await client.query("listen tidegate_queue");
        for (const loop of this.loops.values()) loop.wake.notify();
        while (!(await Promise.race([this.stopsWithin(30), lost]))) await client.query("select");
      } catch (error) {
        this.options.log.warn(`not listening, polling goes on: ${error}`);
      }
      await client.end().catch(() => {});
    } while (!(await this.stopsWithin(1)));
  }

  /** Reports every ten seconds that the worker is alive, and runs each second the maintenance that is due. */
  private async upkeep(): Promise<void> {
    let [seenAt, failing, stopping] = [-Infinity, false, false];
    const loops = [...this.loops.values()];
    const stages = [...new Set(loops.map((loop) => loop.stage))];
    const kinds = [...new Set(loops.flatMap((loop) => loop.kinds))];
    for (;;) {
      try {
        if (stopping || now() - seenAt >= 10) {
          const values = [this.options.name, stages, this.options.queues, stopping, kinds];
          await this.database.rows("select tidegate.worker_seen($1, $2, $3, $4, $5)", values, 2);
          seenAt = now();
          await this.clock.read(this.database);
        }
        if (!stopping) await this.database.rows("call tidegate.maintain()");
        failing = false;
      } catch (error) {
        // A warning once, not every second.
        this.options.log[failing ? "debug" : "warn"](`upkeep failed, and is repeated: ${error}`);
        failing = true;
      }
      if (stopping) return;
      stopping = await this.stopsWithin(1);
    }
  }
}
