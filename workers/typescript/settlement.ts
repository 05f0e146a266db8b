// The statements that end a claim.

import type { Outcome } from "./outcomes.js";

export type Stage = "readiness" | "tx";

/**
 * The end of a claim without an outcome.
 *
 * Released: its call has not begun, or is a check, which has no effect: the request goes back without an attempt.
 * Cut off: its send may have left. The lease ends now, and the next claim rescues the request, with a search for the
 * receipt.
 */
export type Fate = "lost" | "released" | "cut off";

/** What a stage may return. */
export const STAGE_OUTCOMES = {
  readiness: ["passed", "snooze", "retry", "failed"],
  tx: ["receipt", "retry", "rejected"],
};

const LEASE = "array[$1::tidegate.lease]";
const TOOK = "took_ms => array[$2::integer]";
const AFTER = "array[make_interval(secs => $3)]";
const ERROR = "array[$4::jsonb]";

/** The statement that settles an outcome, and its values. */
export function settlement(
  stage: Stage,
  outcome: Outcome | Fate,
  lease: string,
  tookMs: number | null,
): [string, unknown[]] {
  if (outcome === "released") return [`release(${LEASE})`, [lease]];
  if (typeof outcome === "string") return [`extend(${LEASE}, '10 ms')`, [lease]];
  // A NUL or half of a surrogate pair cannot be stored.
  const storable = (text: string): string => text.replace(/[\0\p{Surrogate}]/gu, "\ufffd");
  let error: string | null = null;
  if ("code" in outcome) {
    const retryable = outcome.outcome === "retry" || (outcome.retryable ?? false);
    error = JSON.stringify({ code: storable(outcome.code), message: storable(outcome.message), retryable });
  }
  const after = ("after" in outcome ? outcome.after : null) ?? null;
  switch (outcome.outcome) {
    case "passed":
      return [`settle_passed(${LEASE}, ${TOOK})`, [lease, tookMs]];
    case "failed":
    case "rejected":
      return [`settle_${outcome.outcome}(${LEASE}, array[$3::jsonb], ${TOOK})`, [lease, tookMs, error]];
    case "receipt": {
      const response = outcome.response === undefined ? null : JSON.stringify(outcome.response);
      const sql = `settle_receipt(${LEASE}, array[$3::text], array[$4::jsonb], ${TOOK})`;
      return [sql, [lease, tookMs, outcome.reference ?? null, response]];
    }
    case "snooze":
    case "retry": {
      if (stage === "readiness") {
        return [`settle_snooze(${LEASE}, ${AFTER}, ${ERROR}, ${TOOK})`, [lease, tookMs, after, error]];
      }
      const mayHaveLeft = outcome.outcome === "retry" ? (outcome.mayHaveLeft ?? true) : false;
      const sql = `settle_retry(${LEASE}, ${ERROR}, ${AFTER}, array[$5::boolean], ${TOOK})`;
      return [sql, [lease, tookMs, after, error, mayHaveLeft]];
    }
  }
}
