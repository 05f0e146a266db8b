// Stages over HTTP for the fault suite, as `tidegate-worker http` has them: OPTIONS has the worker's, its kinds and the
// address of the downstream.

import { type Check, type Context, type FindReceipt, type Json, type Receipt, type Send } from "./worker.js";
import { Worker, parse, stringify } from "./worker.js";

const { kinds, downstream, ...options } = JSON.parse(process.env["OPTIONS"]!);

interface Answer {
  status: number;
  retryAfter: { after?: number };
  receipt: Receipt;
}

async function call(method: "GET" | "POST", path: string, payload: Json, context: Context): Promise<Answer> {
  const headers = {
    "Idempotency-Key": context.sendId,
    "Tidegate-Attempt": `${context.attempt}`,
    "Tidegate-Began-At": new Date().toISOString(),
    "Content-Type": "application/json",
  };
  const body = method === "POST" ? stringify(payload) : null;
  const answer = await fetch(`http://${downstream}${path}`, { method, headers, body, signal: context.signal });
  // Read to its end even when it is not used: only then can the connection be used again.
  const text = await answer.text();
  const after = answer.headers.get("Retry-After");
  return {
    status: answer.status,
    retryAfter: after === null ? {} : { after: Number(after) },
    receipt: { outcome: "receipt", ...(answer.ok && text ? (parse(text) as object) : {}) },
  };
}

/** Whether the same request would be refused again. */
const isFinal = (status: number): boolean => status >= 400 && status < 500 && ![408, 409, 425, 429].includes(status);

const check: Check = async (payload, context) => {
  try {
    const { status, retryAfter } = await call("POST", `/check/${context.kind}`, payload, context);
    const message = `the service answered ${status}`;
    if (status < 300) return { outcome: "passed" };
    if (isFinal(status)) return { outcome: "rejected", code: "not_possible", message };
    if (status < 500) return { outcome: "snoozed", ...retryAfter };
    return { outcome: "retry", code: `http_${status}`, message, ...retryAfter };
  } catch (error) {
    context.signal.throwIfAborted();
    return { outcome: "retry", code: "connection_lost", message: `no answer: ${error}` };
  }
};

const send: Send = async (payload, context) => {
  try {
    const { status, retryAfter, receipt } = await call("POST", `/send/${context.kind}`, payload, context);
    const message = `the service answered ${status}`;
    if (status < 300) return receipt;
    if (isFinal(status)) return { outcome: "rejected", code: "rejected", message };
    const mayHaveLeft = ![425, 429].includes(status);
    return { outcome: "retry", code: `http_${status}`, message, mayHaveLeft, ...retryAfter };
  } catch (error) {
    context.signal.throwIfAborted();
    const refused = (error as { cause?: { code?: string } }).cause?.code === "ECONNREFUSED";
    const code = refused ? "connect" : "connection_lost";
    return { outcome: "retry", code, message: `no answer: ${error}`, mayHaveLeft: !refused };
  }
};

const find: FindReceipt = async (payload, context) => {
  const { status, receipt } = await call("GET", `/receipt/${context.kind}/${context.sendId}`, payload, context);
  if (![200, 202, 404, 410].includes(status)) throw new Error(`the service answered ${status}`);
  if (status === 410) return { outcome: "never" };
  return status < 300 ? receipt : null;
};

const of = <Stage>(stage: Stage): Record<string, Stage> =>
  Object.fromEntries(kinds.map((kind: string) => [kind, stage]));

console.log("working");
await new Worker({
  url: process.env["DATABASE_URL"]!,
  checks: of(check),
  sends: of(send),
  receipts: of(find),
  ...options,
}).run();
