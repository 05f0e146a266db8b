// One queue of a worker: claims the requests that can start at once, runs their stages and settles.

import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";

import pg from "pg";

import { type Database, isUnavailable, now } from "./database.js";
import type { Context, Json, Outcome } from "./outcomes.js";
import { type Fate, type Stage, STAGE_OUTCOMES, settlement } from "./settlement.js";
import type { Worker } from "./worker.js";

// The pause of an idle queue after its last claim, in seconds, doubled each time up to the poll interval; and the pause
// from which on the database is asked when the next message becomes visible.
const FIRST_PAUSE = 0.002;
const ASKED_PAUSE = 0.05;
// The pause between claims from a queue with a rate: a claim reserves up to 100 ms.
const PACED_PAUSE = 0.025;
// A send that is later than this for its slot would come too close to the sends of the next slots.
const LATE = 0.05;

interface Claimed {
  lease: string;
  id: string;
  kind: string;
  payload: Json;
  attempt: number;
  attempts_max: number;
  deadline_at: Date;
  submitter: string | null;
  timeout_ms: number;
  paced: boolean;
  claimed_at: number;
  start_in: number;
}

/** Ends a wait, also one that begins later. */
class Wake {
  private isSet = false;
  private resolve = (): void => {};

  notify(): void {
    this.isSet = true;
    this.resolve();
  }

  clear(): void {
    this.isSet = false;
  }

  /** Waits, and returns whether it was notified. */
  async within(seconds: number): Promise<boolean> {
    if (!this.isSet) {
      const woken = new Promise<void>((resolve) => (this.resolve = resolve));
      const timer = new AbortController();
      await Promise.race([woken, sleep(seconds * 1000, undefined, { signal: timer.signal }).catch(() => {})]);
      timer.abort();
    }
    return this.isSet;
  }
}

/** A claimed request on its way through its stage. */
class Call {
  readonly context: Context;
  readonly abort = new AbortController();
  readonly lease: string;
  readonly payload: Json;
  /** By the clock of this process, from before the claim: never longer than by the database's. */
  until: number;
  /** Whether its stage may still be dropped. */
  isRunning = true;
  isSending = false;
  fate: Fate | null = null;
  tookMs: number | null = null;

  constructor(row: Claimed, leaseFor: number, readonly beganAt: number) {
    this.lease = row.lease;
    this.payload = row.payload;
    this.until = beganAt + leaseFor;
    this.context = {
      id: row.id,
      kind: row.kind,
      attempt: row.attempt,
      attemptsMax: row.attempts_max,
      deadline: row.deadline_at,
      submitter: row.submitter,
      timeout: row.timeout_ms / 1000,
      signal: this.abort.signal,
    };
  }

  /** Cancels the stage, if it still runs. */
  drop(fate: Fate): void {
    if (this.isRunning && !this.abort.signal.aborted) {
      this.fate = fate;
      this.abort.abort(new Error(`the call was dropped: ${fate}`));
    }
  }
}

/** One queue of a worker. */
export class QueueLoop {
  readonly wake = new Wake();
  private readonly calls = new Map<string, Call>();
  private readonly settling = new Set<Promise<void>>();
  private readonly database: Database;
  private readonly end = new AbortController();

  constructor(
    private readonly worker: Worker,
    private readonly name: string,
    readonly stage: Stage,
    readonly kinds: string[],
  ) {
    this.database = worker.database;
  }

  /** Claims until the worker stops, and waits for the calls. */
  async run(): Promise<void> {
    const keeping = this.keepLeases();
    try {
      await this.claimUntilStopped();
    } finally {
      const grace = new AbortController();
      const graceEnds = sleep(this.worker.options.grace * 1000, undefined, { signal: grace.signal }).catch(() => {});
      await Promise.race([Promise.all(this.settling), graceEnds]);
      grace.abort();
      for (const call of this.calls.values()) call.drop(call.isSending ? "cut off" : "released");
      await Promise.all(this.settling);
      this.end.abort();
      await keeping;
    }
  }

  /**
   * Claims as many requests as can start at once, as soon as there are any.
   *
   * The pauses of an idle queue are short after a claim, then longer: a submission wakes workers only when it finds its
   * queue empty, and of two concurrent ones the second finds the first.
   */
  private async claimUntilStopped(): Promise<void> {
    const { concurrency, log, poll } = this.worker.options;
    let pause = FIRST_PAUSE;
    while (!this.worker.stopping) {
      this.wake.clear();
      const free = concurrency - this.calls.size;
      let wait = poll;
      try {
        const claimed = free ? await this.claim(free) : [];
        if (claimed.length) {
          pause = claimed[0]!.paced ? PACED_PAUSE : FIRST_PAUSE;
          wait = claimed[0]!.paced ? PACED_PAUSE : 0;
        } else if (free) {
          wait = pause < ASKED_PAUSE ? pause : Math.min(Math.max(await this.claimWait(), FIRST_PAUSE), pause);
          pause = Math.min(2 * pause, poll);
          log.debug(`queue ${this.name}: nothing to claim, waiting ${wait.toFixed(3)} s`);
        }
      } catch (error) {
        // A missing right does not come back by waiting.
        if (error instanceof pg.DatabaseError && error.code === "42501") throw error;
        wait = Math.max(pause, 0.1);
        pause = Math.min(2 * wait, Math.max(poll, 0.1));
        log.warn(`queue ${this.name}: cannot claim, again in ${wait.toFixed(1)} s: ${error}`);
      }
      if (wait && (await this.wake.within(wait))) pause = FIRST_PAUSE;
    }
  }

  /** Claims requests, and starts a call for each. */
  private async claim(count: number): Promise<Claimed[]> {
    const { lease, name } = this.worker.options;
    const askedAt = now();
    const claimed = await this.database.rows<Claimed>(
      `select
         lease::text, id, kind, payload, attempt, attempts_max, deadline_at, submitter, timeout_ms, paced,
         extract(epoch from claimed_at)::float8 as claimed_at,
         extract(epoch from send_at - claimed_at)::float8 as start_in
       from tidegate.claim_${this.stage}($1, $2, $3, make_interval(secs => $4), $5)`,
      [this.name, name, count, lease, this.kinds],
    );
    for (const row of claimed) {
      const call = new Call(row, lease, askedAt);
      this.calls.set(call.lease, call);
      const start = row.paced ? this.worker.clock.start(row.claimed_at, row.start_in, askedAt) : null;
      const settling = this.settle(call, start).finally(() => this.settling.delete(settling));
      this.settling.add(settling);
    }
    return claimed;
  }

  private async claimWait(): Promise<number> {
    const sql = "select tidegate.claim_wait_ms($1, $2) as ms";
    return (await this.database.rows<{ ms: number }>(sql, [this.name, this.kinds]))[0]!.ms / 1000;
  }

  /** Extends the leases of calls, and drops the calls whose lease is lost. */
  private async keepLeases(): Promise<void> {
    const { lease } = this.worker.options;
    const { signal } = this.end;
    while (!signal.aborted) {
      await sleep(Math.min(1, lease / 10) * 1000, undefined, { signal }).catch(() => {});
      const at = now();
      const ageing = [...this.calls.values()].filter((call) => call.until - at < (lease * 2) / 3);
      await this.confirm(ageing, "extend($1::text[]::tidegate.lease[], make_interval(secs => $2))", lease);
      // A request that was cancelled or has ended has lost its lease.
      const long = [...this.calls.values()].filter((call) => !ageing.includes(call) && at - call.beganAt >= 1);
      await this.confirm(long, "still_held($1::text[]::tidegate.lease[])", null);
      for (const call of this.calls.values()) if (!this.holds(call)) call.drop("lost");
    }
  }

  private async confirm(calls: Call[], rows: string, lease: number | null): Promise<void> {
    if (!calls.length) return;
    const askedAt = now();
    const leases = calls.map((call) => call.lease);
    try {
      const sql = `select l::text as lease from tidegate.${rows} as l`;
      // A database that stalls must not delay the drop of lost calls.
      const limit = this.worker.options.lease / 15;
      const held = await this.database.rows<{ lease: string }>(sql, lease === null ? [leases] : [leases, lease], limit);
      for (const call of calls) {
        if (!held.some((row) => row.lease === call.lease)) call.until = askedAt;
        else if (lease !== null) call.until = askedAt + lease;
      }
    } catch (error) {
      this.worker.options.log.warn(`queue ${this.name}: failed to extend or to check leases: ${error}`);
    }
  }

  /** Whether its lease holds, with a margin: the period of extensions and their time limit. */
  private holds(call: Call): boolean {
    return now() < call.until - this.worker.options.lease / 6;
  }

  /** Runs the stage of a request. */
  private async outcome(call: Call, start: number | null): Promise<Outcome | Fate> {
    const { context } = call;
    const { checks, receipts, sends } = this.worker.options;
    if (this.worker.stopping) return "released";
    if (this.stage === "readiness") return (await this.bounded(call, checks[context.kind]!, false))!;
    if (context.attempt > 1) {
      // An earlier send may have succeeded, and its worker may have been lost before the settle.
      const find = receipts[context.kind];
      const found = find ? await this.bounded(call, find, false) : null;
      if (found) return found;
      if (context.attempt > context.attemptsMax) {
        const message = "the worker of the last send was lost, and its receipt is not known";
        return { outcome: "retry", code: "attempts_exhausted", message };
      }
      // The search may have taken longer than until its slot.
      if (start !== null && find) start = await this.reserve();
    }
    if (start !== null && ((await this.worker.stopsWithin(start - now())) || now() - start > LATE)) return "released";
    return this.holds(call) ? (await this.bounded(call, sends[context.kind]!, true))! : "lost";
  }

  /** Calls a stage, no longer than the policy allows. Null: a search has found no receipt. */
  private async bounded(
    call: Call,
    stage: (payload: Json, context: Context) => Promise<Outcome | null>,
    isSend: boolean,
  ): Promise<Outcome | Fate | null> {
    const { id, signal, timeout } = call.context;
    const beganAt = now();
    call.isSending = isSend;
    const timer = setTimeout(() => call.abort.abort(new Error("timeout")), timeout * 1000);
    let [code, message] = ["stage_raised", ""];
    try {
      const called = stage(call.payload, call.context);
      const aborted = new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      const outcome = await Promise.race([called, aborted]);
      const isSearch = this.stage === "tx" && !isSend;
      if (outcome ? STAGE_OUTCOMES[this.stage].includes(outcome.outcome) : isSearch) return outcome;
      message = `the stage returned ${inspect(outcome)}`;
    } catch (error) {
      if (call.fate) return call.fate;
      if (signal.aborted) [code, message] = ["timeout", `the stage took longer than ${timeout} s`];
      else message = `the stage threw ${error}`;
    } finally {
      clearTimeout(timer);
      call.tookMs = Math.round((now() - beganAt) * 1000);
    }
    this.worker.options.log.warn(`request ${id}: ${message}`);
    return { outcome: "retry", code, message, mayHaveLeft: isSend };
  }

  /** Takes one more slot of the queue's rate; in the past, if there is none. */
  private async reserve(): Promise<number> {
    while (!this.worker.stopping) {
      const askedAt = now();
      const slots = await this.database
        .rows<{ reserved_at: number; start_in: number | null; wait_ms: number }>(
          `select extract(epoch from reserved_at)::float8 as reserved_at, wait_ms,
             extract(epoch from send_in)::float8 as start_in from tidegate.reserve_send($1)`,
          [this.name],
        )
        .catch(() => []);
      const slot = slots[0];
      if (!slot) break;
      if (slot.start_in !== null) return this.worker.clock.start(slot.reserved_at, slot.start_in, askedAt);
      await this.worker.stopsWithin(slot.wait_ms / 1000);
    }
    return -Infinity;
  }

  /** Waits for the outcome of a call and settles it. */
  private async settle(call: Call, start: number | null): Promise<void> {
    try {
      const outcome = await this.outcome(call, start);
      call.isRunning = false;
      await this.store(call, outcome);
    } catch (error) {
      // The request is rescued when its lease has run out.
      this.worker.options.log.error(`request ${call.context.id}: cannot settle its outcome: ${error}`);
    }
    // An ended check also frees a place of its queue's concurrency limit.
    if (this.calls.size >= this.worker.options.concurrency || this.stage === "readiness") this.wake.notify();
    this.calls.delete(call.lease);
  }

  /** Settles, repeatedly while the database is unavailable and the lease holds. */
  private async store(call: Call, outcome: Outcome | Fate): Promise<void> {
    const { log } = this.worker.options;
    const { id } = call.context;
    let pause = 0.05;
    let moved: { queue?: string; wake?: boolean }[] = [];
    while (outcome !== "lost") {
      try {
        const [settles, values] = settlement(this.stage, outcome, call.lease, call.tookMs);
        moved = await this.database.rows(`select * from tidegate.${settles}`, values);
        break;
      } catch (error) {
        if (!isUnavailable(error)) {
          if (typeof outcome === "string" || outcome.outcome !== "receipt") throw error;
          const message = `the downstream took it, but its answer cannot be stored: ${error}`;
          outcome = { outcome: "rejected", code: "unstorable_response", message };
          continue;
        }
        if (!this.holds(call)) throw error;
        log.warn(`request ${id}: cannot settle yet: ${error}`);
        await sleep(pause * 1000);
        pause = Math.min(2 * pause, 2);
      }
    }
    // Another worker has the request, or it was cancelled or has ended.
    if (!moved.length) return log.warn(`request ${id}: the lease is lost, ${inspect(outcome)} is discarded`);
    const wake = new Set(moved.flatMap((row) => (row.wake && row.queue ? [row.queue] : [])));
    if (typeof outcome === "string" && this.worker.stopping) wake.add(this.name);
    for (const queue of wake) await this.database.rows("select tidegate.wake($1)", [queue]).catch(() => {});
  }
}
