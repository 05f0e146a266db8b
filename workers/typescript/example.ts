// An example of stages, to copy: checks public_decrypt, and sends it and direct.
// DATABASE_URL names the database, by a user with the role tidegate_worker.

import { type Context, type FindReceipt, type Json, type Passed, type Send, type Snooze, Worker } from "./worker.js";

type Order = { ready?: boolean; amount?: number; flaky?: boolean };

// Stands for the downstream: the requests that it has taken, by `sendId`, which is the idempotency key.
const taken = new Map<string, Json>();

/** Whether the request can run now. A snooze uses no attempt. */
async function check(payload: Json, context: Context): Promise<Passed | Snooze> {
  const { ready = true } = payload as Order;
  return !ready && context.attempt === 1 ? { outcome: "snoozed", after: 1 } : { outcome: "passed" };
}

/** Gives the request to the downstream. It may be called again for the same request, so it must be repeatable. */
const send: Send = async (payload, context) => {
  const { amount = 1, flaky = false } = payload as Order;
  if (amount <= 0) return { outcome: "rejected", code: "bad_amount", message: `${amount} is not above zero` };
  if (flaky && context.attempt === 1) {
    // The policy decides when to try again; false, because nothing has been sent.
    return { outcome: "retry", code: "connect", message: "no connection", mayHaveLeft: false };
  }
  const response = { echo: payload, attempt: context.attempt };
  taken.set(context.sendId, response);
  // A response that comes later is stored by POST /v1/responses or tidegate.respond.
  return { outcome: "receipt", reference: `order-${context.sendId}`, response };
};

/**
 * The receipt of an earlier send: asked before every send that may repeat one, and after an end that tells nothing.
 *
 * A downstream that will certainly not execute the request gives `{ outcome: "never" }`; this one knows only what it
 * has taken.
 */
const findReceipt: FindReceipt = async (_payload, context) => {
  const response = taken.get(context.sendId);
  return response === undefined ? null : { outcome: "receipt", reference: `order-${context.sendId}`, response };
};

const url = process.env["DATABASE_URL"];
if (!url) throw new Error("set DATABASE_URL");
await new Worker({
  url,
  queues: ["readiness", "tx"],
  checks: { public_decrypt: check },
  sends: { public_decrypt: send, direct: send },
  receipts: { public_decrypt: findReceipt, direct: findReceipt },
}).run();
