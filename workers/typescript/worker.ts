// A worker: drains queues until it is stopped. docs/workers.md has the contract that it keeps.

import { randomBytes } from "node:crypto";
import { once, setMaxListeners } from "node:events";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";

import pg from "pg";

import { parse, stringify, type Json } from "./json.js";
import type { Check, Context, FindReceipt, Never, Outcome, Receipt, Send } from "./outcomes.js";

export { LosslessNumber, parse, stringify, type Json } from "./json.js";
export type * from "./outcomes.js";

// Seconds: the first pause of an idle queue, doubled up to the poll interval; and how late for its slot a send may be.
const [FIRST_PAUSE, LATE] = [0.002, 0.05];
// How many searches run at once for the receipts of requests that have ended.
const SEARCHES = 16;
// Seconds: how long an exception of a stage is logged without its stack after it was with it.
const TOLD_AGAIN = 300;

const LEASE = "array[$lease::tidegate.lease]";
const SETTLE =
  `settle(${LEASE}, array[$outcome], array[$error::jsonb], array[make_interval(secs => $after)],` +
  " array[$mayHaveLeft::boolean], array[$reference::text], array[$response::jsonb], array[$tookMs::integer])";
/** What a stage may return, besides what a search for a receipt does. */
const OUTCOMES: Record<Queue["stage"], string[]> = {
  readiness: ["passed", "snoozed", "retry", "rejected"],
  tx: ["receipt", "retry", "rejected"],
};
/** The call has not begun, or has no effect, as a check. */
const RELEASED = { outcome: "released" } as const;
// The end of a claim whose send may have left: the lease ends at once, and the next claim rescues the request, with a search
// for its receipt.
const CUT_OFF = `extend(${LEASE}, '10 ms')`;

interface Queue {
  name: string;
  stage: "readiness" | "tx";
  kinds: string[];
  /** Aborted when there may be something to claim. */
  wake: AbortController;
  /** The last claim: the next one begins when it has ended. */
  claiming: Promise<unknown>;
}

/** A claimed request on its way through its stage. */
interface Call extends Context {
  queue: Queue;
  /** The payload, as JSON text. */
  payload: string;
  lease: string;
  /** The end of the lease, by the clock of this process. */
  until: number;
  /** When it may be sent, by the database's clock, in a queue with a rate. */
  sendAt: number | null;
  abort: AbortController;
  isSending: boolean;
  tookMs: number | null;
}

/** A request that has ended, and whose receipt is searched for. */
type Search = Omit<Context, "signal"> & { payload: string };

type Optional = "checks" | "sends" | "receipts" | "name" | "concurrency" | "lease" | "poll" | "grace" | "listenUrl";
export type WorkerOptions = Pick<Worker, "url" | "queues"> & Partial<Pick<Worker, Optional | "log">>;

/** Drains queues. Requests of kinds that have no stage here are left to other workers. */
export class Worker {
  readonly url!: string;
  readonly queues!: string[];
  readonly checks: Record<string, Check> = {};
  readonly sends: Record<string, Send> = {};
  /**
   * Searches for the receipts of earlier sends. Without one, a send that may have left is repeated without asking, and
   * nothing is found out about a request that has ended.
   */
  readonly receipts: Record<string, FindReceipt> = {};
  readonly name: string = `${hostname()}-${randomBytes(4).toString("hex")}`;
  /** Calls at once per queue. */
  readonly concurrency: number = 20;
  /** Seconds, as the next two: the length of a lease. */
  readonly lease: number = 30;
  /** How often an idle queue is claimed from without a notification. */
  readonly poll: number = 2;
  /** How long calls may go on after a stop. */
  readonly grace: number = 20;
  /** Where to LISTEN, if `url` leads to a pooler in transaction mode. */
  readonly listenUrl?: string;
  readonly log: Pick<Console, "debug" | "info" | "warn" | "error"> = { ...console, debug: () => {} };
  private readonly pool: pg.Pool;
  private readonly stopping = new AbortController();
  private cutOffAt = Infinity;
  private readonly drained = new Map<string, Queue>();
  /** When an exception was logged with its stack, by its name and the line that threw it. */
  private readonly told = new Map<string, number>();

  constructor(options: WorkerOptions) {
    Object.assign(this, options);
    // An answer that takes half a lease is too late for its claim or its settle.
    const limit = Math.min(20, this.lease / 2) * 1000;
    // Claims and extensions are durable before a call begins.
    const session = { connectionString: this.url, options: "-c synchronous_commit=on", keepAlive: true };
    this.pool = new pg.Pool({ ...session, max: 4, connectionTimeoutMillis: limit, query_timeout: limit });
    // The statement that uses the connection has the error, too.
    this.pool.on("error", () => {});
    setMaxListeners(0, this.stopping.signal);
  }

  /** Ends claiming. `run` returns when the calls have ended, or were released after `grace`. */
  readonly stop = (): void => {
    this.stopping.abort();
    this.cutOffAt = Math.min(this.cutOffAt, now() + this.grace);
    for (const queue of this.drained.values()) queue.wake.abort();
  };

  /** Works until `stop`, SIGTERM or SIGINT. Throws if it cannot work: for an unknown queue or kind, or without a right. */
  async run(): Promise<void> {
    try {
      await this.checkKinds();
      for (const name of this.queues) this.drained.set(name, await this.queue(name));
      for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, this.stop);
      // These stay: the error of the last line comes later.
      for (const output of [process.stdout, process.stderr]) output.off("error", ignore).on("error", ignore);
      this.log.info(`worker ${this.name} drains ${this.queues.join(", ")}`);
      await this.report();
      const drains = [...this.drained.values()].flatMap((queue) =>
        Array.from({ length: this.concurrency }, () => this.drain(queue)),
      );
      const ends = await Promise.allSettled([this.listen(), this.search(), this.upkeep(), ...drains]);
      for (const end of ends) if (end.status === "rejected") throw end.reason;
      this.log.info(`worker ${this.name} has stopped`);
    } finally {
      for (const signal of ["SIGTERM", "SIGINT"] as const) process.off(signal, this.stop);
      await this.pool.end();
    }
  }

  /** The rows of a statement, which is a transaction of its own; `$name` in it stands for a value. */
  async rows<Row extends object>(sql: string, given: Record<string, unknown> = {}, limit?: number): Promise<Row[]> {
    const names: string[] = [];
    const text = sql.replace(/\$(\w+)/g, (_, name) => `$${names.indexOf(name) + 1 || names.push(name)}`);
    const values = names.map((name) => given[name] ?? null);
    // Nothing is prepared, so that any pooler will do.
    return (await this.pool.query<Row>({ text, values, ...(limit && { query_timeout: limit * 1000 }) })).rows;
  }

  /** Refuses a stage for a kind that is not registered: it would never be called. */
  private async checkKinds(): Promise<void> {
    const rows = await this.rows<{ name: string }>("select name from tidegate.kind order by name");
    const known = rows.map((row) => row.name);
    for (const kind of Object.keys({ ...this.checks, ...this.sends, ...this.receipts }).sort()) {
      if (known.includes(kind)) continue;
      const near = known.filter((name) => edits(kind, name) <= Math.max(2, kind.length / 3));
      const thereAre = near.length ? `did you mean ${near.join(" or ")}?` : `there are ${known.join(", ") || "none"}`;
      throw new Error(`kind "${kind}" is not registered: ${thereAre}`);
    }
  }

  private async queue(name: string): Promise<Queue> {
    const [row] = await this.rows<Pick<Queue, "stage"> & { exactly_once: string[] }>(
      `select stage::text, array(select kind from tidegate.policy where stage = 'tx' and semantics = 'exactly_once')
         as exactly_once from tidegate.queue where name = $name`,
      { name },
    );
    if (!row) throw new Error(`there is no queue "${name}"; see \`select name, stage from tidegate.queue\``);
    for (const kind of row.exactly_once.filter((kind) => kind in this.sends)) {
      throw new Error(`kind "${kind}" has exactly_once semantics: leave it to a worker that writes effects`);
    }
    const kinds = Object.keys(row.stage === "readiness" ? this.checks : this.sends);
    return { name, stage: row.stage, kinds, wake: new AbortController(), claiming: Promise.resolve() };
  }

  /** Claims a request and serves it, again and again. This runs once for each call allowed at a time; one claims. */
  private async drain(queue: Queue): Promise<void> {
    while (!this.stopping.signal.aborted) {
      const claim = queue.claiming.then(() => this.claim(queue));
      queue.claiming = claim.catch(() => {});
      const call = await claim;
      if (call) await this.serve(call);
    }
  }

  /**
   * Claims a request as soon as there is one; null when the worker stops.
   *
   * The pauses begin short: of two concurrent submissions to an empty queue, the second notifies no worker.
   */
  private async claim(queue: Queue): Promise<Call | null> {
    const values = { queue: queue.name, kinds: queue.kinds, worker: this.name, lease: this.lease };
    for (let pause = FIRST_PAUSE, wait = 0; !this.stopping.signal.aborted; ) {
      queue.wake = new AbortController();
      // Counted from before the claim, a lease lasts no longer than by the database's clock.
      const until = now() + this.lease;
      try {
        const [claimed] = await this.rows<Call>(
          `select id, coalesce(send_id, id) as "sendId", kind, payload::text, attempt, attempts_max as "attemptsMax",
             deadline_at as deadline, submitter, lease::text, timeout_ms / 1000.0::float8 as timeout,
             case when paced then extract(epoch from send_at)::float8 end as "sendAt", traceparent,
             coalesce(begins_trace, false) as "beginsTrace"
           from tidegate.claim_${queue.stage}($queue, $worker, 1, make_interval(secs => $lease), $kinds)`,
          values,
        );
        const abort = new AbortController();
        if (claimed) return { ...claimed, queue, until, abort, signal: abort.signal, isSending: false, tookMs: null };
        const [asked] = await this.rows<{ ms: number }>("select tidegate.claim_wait_ms($queue, $kinds) as ms", values);
        wait = Math.min(Math.max(asked!.ms / 1000, FIRST_PAUSE), pause);
        this.log.debug(`queue ${queue.name}: nothing to claim, waiting ${wait.toFixed(3)} s`);
      } catch (error) {
        if (error instanceof pg.DatabaseError && error.code === "42501") {
          // A missing right does not come back by waiting.
          this.stop();
          throw error;
        }
        wait = Math.max(pause, 0.1);
        this.log.warn(`queue ${queue.name}: cannot claim, again in ${wait.toFixed(1)} s: ${error}`);
      }
      pause = (await isAbortedWithin(queue.wake.signal, wait)) ? FIRST_PAUSE : Math.min(2 * pause, this.poll);
    }
    return null;
  }

  /** Runs the stage of a request, keeps its lease meanwhile, and settles. */
  private async serve(call: Call): Promise<void> {
    const ended = new AbortController();
    const fails = (error: unknown): null => {
      if (!call.signal.aborted) this.log.warn(`request ${call.id}: not sent: ${error}`);
      return null;
    };
    const running = this.outcome(call).catch(fails).finally(() => ended.abort());
    let keeping: Promise<void> | null = null;
    while (!(await isAbortedWithin(ended.signal, Math.min(1, this.lease / 10)))) {
      if (!this.holds(call) || now() > this.cutOffAt) call.abort.abort();
      // Not awaited: a database that does not answer must not delay the end of a call whose lease is lost.
      else keeping ??= this.keep(call).finally(() => (keeping = null));
    }
    try {
      await this.settle(call, (await running) ?? (call.isSending ? CUT_OFF : RELEASED));
    } catch (error) {
      // The request is rescued when its lease has run out.
      this.log.error(`request ${call.id}: cannot settle its outcome: ${error}`);
    }
    // An ended check frees a place of its queue's concurrency limit.
    if (call.queue.stage === "readiness") call.queue.wake.abort();
  }

  /** Whether its lease holds, with a margin. */
  private holds(call: Call): boolean {
    return now() < call.until - this.lease / 5;
  }

  /** Extends the lease when a third of it is used; otherwise reads whether its request was cancelled, or ended. */
  private async keep(call: Call): Promise<void> {
    const askedAt = now();
    const extend = call.until - askedAt < (this.lease * 2) / 3;
    const rows = extend ? `extend(${LEASE}, make_interval(secs => $time))` : `still_held(${LEASE})`;
    try {
      const values = { lease: call.lease, time: this.lease };
      const held = await this.rows(`select 1 from tidegate.${rows}`, values, this.lease / 15);
      if (!held.length) call.until = askedAt;
      else if (extend) call.until = askedAt + this.lease;
    } catch (error) {
      this.log.warn(`request ${call.id}: failed to extend or to check its lease: ${error}`);
    }
  }

  /** The outcome of a request's stage; null, or an error, if the claim ends without one. */
  private async outcome(call: Call): Promise<Outcome | null> {
    if (this.stopping.signal.aborted) return null;
    const isCheck = call.queue.stage === "readiness";
    let payload: Json;
    try {
      payload = parse(call.payload);
    } catch (error) {
      // Nested too deep for this program.
      const message = `the payload cannot be read: ${(error as Error).name}`;
      return { outcome: "rejected", code: "invalid_payload", message };
    }
    if (isCheck) return await this.bounded(call, payload, this.checks[call.kind]!);
    if (mayBeRepeated(call)) {
      // An earlier send may have succeeded, and its worker may have been lost before the settle.
      const find = this.receipts[call.kind];
      const found = find && (await this.bounded(call, payload, find));
      if (found) return found;
      if (call.attempt > call.attemptsMax) {
        const message = "the worker of the last send was lost, and its receipt is not known";
        return { outcome: "retry", code: "attempts_exhausted", message };
      }
    }
    return (await this.hasSlot(call)) ? await this.bounded(call, payload, this.sends[call.kind]!, true) : null;
  }

  /** Waits until a send may start. One that is late for its slot is released, or after a search takes another. */
  private async hasSlot(call: Call): Promise<boolean> {
    while (call.sendAt !== null) {
      // By an answer that is fast: that of the claim may have been delayed.
      const [clock] = await this.rows<{ now: number }>("select extract(epoch from tidegate.clock())::float8 as now");
      const start = now() + call.sendAt - clock!.now;
      if (await isAbortedWithin(this.stopping.signal, start - now())) return false;
      if (now() - start <= LATE) break;
      if (!mayBeRepeated(call)) return false;
      const [slot] = await this.rows<{ at: number | null; wait: number }>(
        `select extract(epoch from reserved_at + send_in)::float8 as at, wait_ms / 1000.0::float8 as wait
         from tidegate.reserve_send($queue)`,
        { queue: call.queue.name },
      );
      call.sendAt = slot!.at ?? call.sendAt;
      await isAbortedWithin(this.stopping.signal, slot!.wait);
    }
    return this.holds(call);
  }

  /** Calls a stage, no longer than the policy allows. Null: a search has found no receipt. */
  private async bounded(
    call: Call,
    payload: Json,
    stage: (payload: Json, context: Context) => Promise<Outcome | Never | null>,
    isSend = false,
  ): Promise<Outcome | null> {
    const beganAt = now();
    call.isSending = isSend;
    const late = new DOMException(`the stage took longer than ${call.timeout} s`, "TimeoutError");
    const timer = setTimeout(() => call.abort.abort(late), call.timeout * 1000);
    let [code, message] = ["stage_raised", ""];
    try {
      const aborted = once(call.signal, "abort").then(() => Promise.reject(call.signal.reason));
      const outcome = await Promise.race([stage(payload, call), aborted]);
      const isSearch = call.queue.stage === "tx" && !isSend;
      const isNothing = !outcome || outcome.outcome === "never";
      if (isNothing && isSearch) return null;
      if (!isNothing && OUTCOMES[call.queue.stage].includes(outcome.outcome)) return outcome;
      message = `the stage returned ${inspect(outcome)}`;
    } catch (error) {
      if (call.signal.aborted && call.signal.reason !== late) throw error;
      [code, message] = call.signal.aborted ? ["timeout", late.message] : [code, `the stage threw ${error}`];
      if (!call.signal.aborted) this.tell(call, error);
    } finally {
      clearTimeout(timer);
      call.tookMs = Math.round((now() - beganAt) * 1000);
    }
    this.log.warn(`request ${call.id}: ${message}`);
    return { outcome: "retry", code, message, mayHaveLeft: isSend };
  }

  /** Logs the stack of an exception that a stage has thrown, which may be a bug, from time to time. */
  private tell(context: Omit<Context, "signal">, error: unknown): void {
    const place = error instanceof Error ? `${error.name} ${error.stack?.match(/^\s+at .*/m)?.[0]}` : typeof error;
    if (now() < (this.told.get(place) ?? -Infinity) + TOLD_AGAIN) return;
    this.told.set(place, now());
    this.log.error(
      `a stage of kind ${context.kind} threw an exception, which is retried like any failure (attempt ${context.attempt}` +
        ` of ${context.attemptsMax}, request ${context.id}): for a request that cannot succeed, return "rejected":` +
        ` ${inspect(error)}`,
    );
  }

  /** Settles, repeatedly while the database is unavailable and the lease holds. */
  private async settle(call: Call, outcome: Outcome | typeof RELEASED | string): Promise<void> {
    let moved: { queue?: string; wake?: boolean }[] | undefined;
    while (!moved) {
      try {
        const settles = typeof outcome === "string" ? outcome : SETTLE;
        const values = { lease: call.lease, tookMs: call.tookMs, ...settleValues(outcome) };
        moved = await this.rows(`select * from tidegate.${settles}`, values);
      } catch (error) {
        if (isUnavailable(error)) {
          if (!this.holds(call)) throw error;
          this.log.warn(`request ${call.id}: cannot settle yet: ${error}`);
          await sleep(500);
        } else {
          if (typeof outcome === "string" || outcome.outcome !== "receipt") throw error;
          const message = `the downstream took it, but its answer cannot be stored: ${error}`;
          outcome = { outcome: "rejected", code: "unstorable_response", message };
        }
      }
    }
    // Another worker has the request, or it was cancelled or has ended.
    if (!moved.length) return this.log.warn(`request ${call.id}: the lease is lost, ${inspect(outcome)} is discarded`);
    const wake = new Set(moved.flatMap((row) => (row.wake && row.queue ? [row.queue] : [])));
    const isGivenBack = outcome === RELEASED || typeof outcome === "string";
    if (isGivenBack && this.stopping.signal.aborted) wake.add(call.queue.name);
    for (const queue of wake) await this.rows("select tidegate.wake($queue)", { queue }).catch(() => {});
  }

  /** Searches for the receipts of requests that have ended and may have been executed, until the worker stops. */
  private async search(): Promise<void> {
    const [kinds, searches] = [Object.keys(this.receipts), new Set<Promise<void>>()];
    let failing = false;
    while (kinds.length && !this.stopping.signal.aborted) {
      const room = SEARCHES - searches.size;
      let due: Search[] = [];
      try {
        due = await this.rows<Search>(
          `select id, send_id as "sendId", kind, payload::text, attempt, attempt as "attemptsMax", deadline_at as deadline,
             submitter, timeout_ms / 1000.0::float8 as timeout
           from tidegate.search_claim($kinds, $room)`,
          { kinds, room },
        );
        failing = false;
      } catch (error) {
        if (!failing) this.log.warn(`cannot claim requests whose receipts are to be searched for: ${error}`);
        failing = true;
      }
      for (const search of due) {
        const searched = this.searchFor(search).finally(() => searches.delete(searched));
        searches.add(searched);
      }
      if (due.length < room) await isAbortedWithin(this.stopping.signal, this.poll);
      else await Promise.race(searches);
    }
    await Promise.all(searches);
  }

  /** Searches once. One that fails or is cut off is made again: its next time is in the database. */
  private async searchFor({ payload, ...search }: Search): Promise<void> {
    const abort = new AbortController();
    const isOver = isAbortedWithin(this.stopping.signal, search.timeout).then(() => abort.abort());
    const find = async () => this.receipts[search.kind]!(parse(payload), { ...search, signal: abort.signal });
    const log = (level: "debug" | "info" | "warn", message: string): void =>
      this.log[level](`request ${search.id}: a search after its end ${message}`);
    let found: Receipt | Never | null | void;
    try {
      found = await Promise.race([find(), isOver]);
    } catch (error) {
      if (!abort.signal.aborted) this.tell(search, error);
      return log("debug", `has failed: ${error}`);
    }
    if (found?.outcome !== "receipt" && found?.outcome !== "never") return log("debug", `has found ${inspect(found)}`);
    const settle = async (values: Record<string, unknown>): Promise<void> => {
      const sql = "select tidegate.search_settle($id, $outcome, $reference, $response) as outcome";
      const [settled] = await this.rows<{ outcome: string }>(sql, { id: search.id, ...values });
      log("info", `has found ${values["outcome"]}: ${settled!.outcome}`);
    };
    try {
      await settle(settleValues(found));
    } catch (error) {
      log("warn", `has found ${found.outcome}, which cannot be stored: ${error}`);
      // One that is not settled here, the next search finds again.
      if (isUnavailable(error) || found.outcome !== "receipt" || found.response === undefined) return;
      await settle({ outcome: "answered" }).catch((error) => log("warn", `is not settled: ${error}`));
    }
  }

  /** Wakes idle queues by notifications. These are hints: without them the worker polls. */
  private async listen(): Promise<void> {
    do {
      const limits = { connectionTimeoutMillis: 5000, query_timeout: 5000, keepAlive: true };
      const client = new pg.Client({ connectionString: this.listenUrl ?? this.url, ...limits });
      const lost = once(client, "error").then(([error]) => Promise.reject(error));
      lost.catch(() => {});
      client.on("notification", ({ payload }) => this.drained.get(payload ?? "")?.wake.abort());
      try {
        await client.connect();
        await client.query("listen tidegate_queue");
        for (const queue of this.drained.values()) queue.wake.abort();
        while (!(await Promise.race([isAbortedWithin(this.stopping.signal, 30), lost]))) await client.query("select");
      } catch (error) {
        this.log.warn(`not listening, polling goes on: ${error}`);
      }
      await client.end().catch(() => {});
    } while (!(await isAbortedWithin(this.stopping.signal, 1)));
  }

  /** Reports every ten seconds that the worker is alive, and runs each second the maintenance that is due. */
  private async upkeep(): Promise<void> {
    for (let second = 1, stopping = false; ; second += 1) {
      try {
        if (stopping || second % 10 === 0) await this.report(stopping);
        await this.rows("call tidegate.maintain()");
      } catch (error) {
        this.log.warn(`upkeep failed, and is repeated: ${error}`);
      }
      if (stopping) return;
      stopping = await isAbortedWithin(this.stopping.signal, 1);
    }
  }

  /**
   * Reports that the worker is alive. The first report comes before the first claim: a copy of a database, which must
   * send nothing, is noticed by it.
   */
  private async report(stopping = false): Promise<void> {
    const queues = [...this.drained.values()];
    const stages = [...new Set(queues.map((queue) => queue.stage))];
    const kinds = [...new Set(queues.flatMap((queue) => queue.kinds))];
    const values = { name: this.name, stages, queues: this.queues, stopping, kinds };
    await this.rows("select tidegate.worker_seen($name, $stages, $queues, $stopping, $kinds)", values);
  }
}

/** A log that nobody reads any more, whose lines are lost, must not end the worker. */
const ignore = (): void => {};

/** The seconds of a clock that never steps. */
const now = (): number => performance.now() / 1000;

/** Whether an earlier send, of this request or of the one that it repeats, may have succeeded. */
const mayBeRepeated = (call: Call): boolean => call.attempt > 1 || call.sendId !== call.id;

/** How many characters are to be changed, added or left out to make one name of another. */
function edits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [index, char] of [...from].entries()) {
    const above = row;
    row = [index + 1];
    for (let at = 0; at < to.length; at += 1) {
      row.push(Math.min(row[at]! + 1, above[at + 1]! + 1, above[at]! + Number(char !== to[at])));
    }
  }
  return row.at(-1)!;
}

/** Waits until a signal is aborted. */
async function isAbortedWithin(signal: AbortSignal, seconds: number): Promise<boolean> {
  await sleep(Math.max(seconds, 0) * 1000, undefined, { signal }).catch(() => {});
  return signal.aborted;
}

/** Whether the same statement may succeed later (25: the database takes no writes). */
function isUnavailable(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(08|25|28|3D|40|53|55|57|58|XX)/.test(error.code ?? "");
  return !(error instanceof TypeError);
}

/** The values of a settle's statement. */
function settleValues(outcome: Outcome | Never | typeof RELEASED | string): Record<string, unknown> {
  if (typeof outcome === "string") return {};
  const values: Record<string, unknown> = { mayHaveLeft: true, ...outcome };
  if ("code" in outcome) {
    // A NUL or half of a surrogate pair cannot be stored.
    const storable = (text: string): string => text.replace(/[\0\p{Surrogate}]/gu, "\ufffd");
    const retryable = outcome.outcome === "retry" || (outcome.retryable ?? false);
    values["error"] = JSON.stringify({ code: storable(outcome.code), message: storable(outcome.message), retryable });
  }
  if ("response" in outcome && outcome.response !== undefined) values["response"] = stringify(outcome.response);
  return values;
}
