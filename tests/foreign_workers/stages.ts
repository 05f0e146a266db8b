// Stages that ask the test for each outcome: a JSON line over a TCP connection, and a line back.

import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";

import type { Check, Context, FindReceipt, Json, Never, Outcome, Send } from "./worker.js";
import { parse, stringify, Worker } from "./worker.js";

const { kinds, listen_url: listenUrl, ...options } = JSON.parse(process.env["OPTIONS"]!);

async function ask(step: string, payload: Json, context: Context): Promise<Outcome | Never | null> {
  const { id, sendId: send_id, kind, attempt, signal } = context;
  const at = Date.now() / 1000;
  const socket = connect(Number(process.env["DOWNSTREAM"]), "127.0.0.1");
  signal.addEventListener("abort", () => socket.destroy());
  socket.on("error", () => {});
  try {
    socket.write(`${stringify({ worker: options.name, step, id, send_id, kind, payload, attempt, at })}\n`);
    const [line] = await once(createInterface({ input: socket }), "line", { signal });
    const { may_have_left: mayHaveLeft, ...answer } = parse(line) as any;
    if (answer.outcome === "raise") throw new Error("the stage fails");
    if (mayHaveLeft !== undefined) answer.mayHaveLeft = mayHaveLeft;
    return answer.outcome ? answer : null;
  } finally {
    socket.destroy();
  }
}

const check = ((payload, context) => ask("check", payload, context)) as Check;
const send = ((payload, context) => ask("send", payload, context)) as Send;
const find = ((payload, context) => ask("find", payload, context)) as FindReceipt;
const of = <Stage>(stage: Stage): Record<string, Stage> =>
  Object.fromEntries(kinds.map((kind: string) => [kind, stage]));

await new Worker({
  url: process.env["DATABASE_URL"]!,
  checks: of(check),
  sends: of(send),
  receipts: of(find),
  log: console,
  ...(listenUrl && { listenUrl }),
  ...options,
}).run();
