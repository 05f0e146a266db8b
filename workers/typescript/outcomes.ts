// What a stage gets and returns. A stage is an async function from a payload and its context to an outcome.

import type { Json } from "./json.js";

/** The request of a call. `sendId` is the idempotency key towards the downstream: any call may come again. */
export interface Context {
  readonly id: string;
  /** Its id, or that of the request which it repeats. */
  readonly sendId: string;
  readonly kind: string;
  readonly attempt: number;
  readonly attemptsMax: number;
  readonly deadline: Date;
  readonly submitter: string | null;
  /** The seconds after which the call is cancelled. */
  readonly timeout: number;
  /** Aborted when the call is cancelled: its answer is not awaited any more. */
  readonly signal: AbortSignal;
  /** Its place in its caller's trace, to be sent on; of a search none. */
  readonly traceparent?: string | null;
  /** Whether a span of this call begins a trace of its own, which links to that one. */
  readonly beginsTrace?: boolean;
}

/** The request can run: its check has passed. */
export type Passed = { outcome: "passed" };

/** It cannot run yet: it is checked again after these seconds, or as the policy has it. Uses no attempt. */
export type Snooze = { outcome: "snoozed"; after?: number };

/** The downstream took it: under this reference, perhaps with the response, which otherwise comes later. */
export type Receipt = { outcome: "receipt"; reference?: string; response?: Json };

/** The downstream promises: it has not executed the request, and will execute no earlier send of it. */
export type Never = { outcome: "never" };

/** It can never run, or the downstream refused it permanently. */
export type Rejected = { outcome: "rejected"; code: string; message: string; retryable?: boolean };

/**
 * The check or the send did not succeed; another attempt may: after these seconds, or as the policy has it.
 * `mayHaveLeft` is false only if the downstream has certainly not received the request with this attempt.
 */
export type Retry = { outcome: "retry"; code: string; message: string; after?: number; mayHaveLeft?: boolean };

export type Outcome = Passed | Snooze | Receipt | Rejected | Retry;
export type Check = (payload: Json, context: Context) => Promise<Passed | Snooze | Retry | Rejected>;
export type Send = (payload: Json, context: Context) => Promise<Receipt | Retry | Rejected>;
export type FindReceipt = (payload: Json, context: Context) => Promise<Receipt | Never | null>;
