// A request's life, and what may refuse a call, through the generated types.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import createClient from "openapi-fetch";

import type { components, paths } from "./tidegate.js";

type Ended = components["schemas"]["Ended"];
type Header = { "Idempotency-Key"?: string; "Tidegate-Not-Before"?: string; Prefer?: string };

const baseUrl = process.env["API"] ?? "";
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${process.env["KEY"]}` } });
const path = { kind: "direct" };
const key = { "Idempotency-Key": `typescript-${randomUUID()}` };
const payload = { from: "typescript" };

const submit = (body: unknown, header: Header) =>
  client.POST("/v1/{kind}", { params: { path, header }, body });
const poll = (job_id: string) => client.GET("/v1/{kind}/{job_id}", { params: { path: { ...path, job_id } } });
const cancel = (job_id: string) => client.DELETE("/v1/{kind}/{job_id}", { params: { path: { ...path, job_id } } });
const wait = (response: Response) => sleep(1000 * Number(response.headers.get("Retry-After")));

/** Polls as often as the answers allow. */
async function endOf(job_id: string): Promise<Ended> {
  for (;;) {
    const { data, error, response } = await poll(job_id);
    assert(data, JSON.stringify(error));
    if (data.status !== "queued") return data;
    assert.equal(data.eta_seconds, Number(response.headers.get("Retry-After")));
    await wait(response);
  }
}

// The gate is closed at first.
let refusals = 0;
let submitted = await submit(payload, key);
for (; submitted.error?.code === "gate_closed"; submitted = await submit(payload, key)) {
  refusals += 1;
  assert.equal(submitted.response.status, 429);
  assert.equal(submitted.error.retry_after_seconds, Number(submitted.response.headers.get("Retry-After")));
  await wait(submitted.response);
}
assert(refusals > 0);
const job = submitted.data;
assert(job?.status === "queued", JSON.stringify(submitted));
assert.equal(submitted.response.headers.get("Location"), `/v1/direct/${job.job_id}`);

const ended = await endOf(job.job_id);
assert(ended.status === "succeeded" && ended.job_id === job.job_id && ended.result, JSON.stringify(ended));
assert.equal(ended.executed, "yes");
const stream = { params: { path: { ...path, job_id: job.job_id } }, parseAs: "text" } as const;
const followed = await client.GET("/v1/{kind}/{job_id}/events", stream);
assert.match(followed.data ?? "", /^event: result$/m);

// The key stands for this request.
const again = await submit(payload, key);
assert.equal(again.response.status, 200);
assert.deepEqual(again.data, ended);
assert.equal(again.response.headers.get("Idempotency-Replayed"), "true");
const reused = await submit({ from: "another" }, key);
assert(reused.error?.code === "idempotency_key_reused" && !reused.error.retryable);

// Without a key, the same payload is another request; the caller waits for its end.
const held = await submit(payload, { Prefer: "wait=2" });
assert.equal(held.response.headers.get("Preference-Applied"), "wait=2");
assert(held.data && held.data.job_id !== job.job_id, JSON.stringify(held));
assert.equal((await endOf(held.data.job_id)).status, "succeeded");

const batch = await client.POST("/v1/{kind}/batch", { params: { path }, body: [{ number: 1 }, "two", 3] });
assert.equal(batch.data?.job_ids.length, 3);
const those = { params: { path, query: { id: batch.data.job_ids } } };
let polled = await client.GET("/v1/{kind}", those);
for (; polled.response.status === 202; polled = await client.GET("/v1/{kind}", those)) await wait(polled.response);
assert(polled.data && "status" in polled.data && polled.data.status === "ended", JSON.stringify(polled));
assert.deepEqual(polled.data.requests.map(({ job_id }) => job_id), batch.data.job_ids);
assert(polled.data.requests.every(({ status }) => status === "succeeded"));
const page = await client.GET("/v1/{kind}", { params: { path, query: { limit: 1 } } });
assert(page.data && "next" in page.data && page.data.next && page.data.requests.length === 1, JSON.stringify(page));

const later = { "Tidegate-Not-Before": new Date(Date.now() + 3_600_000).toISOString() };
const delayed = await submit(payload, later);
assert(delayed.data, JSON.stringify(delayed));
const gone = (await cancel(delayed.data.job_id)).data;
assert(gone && "outcome" in gone && gone.outcome === "cancelled", JSON.stringify(gone));
const cancelled = await endOf(delayed.data.job_id);
assert(cancelled.status === "failed" && cancelled.error.code === "cancelled", JSON.stringify(cancelled));
assert.equal(cancelled.executed, "no");
const late = await cancel(job.job_id);
assert(late.error?.code === "not_cancellable" && late.response.status === 409);

// A search has found the response of this one after its end. An operator does not contradict the downstream.
const answered = process.env["LATE"] ?? "";
const failed = await endOf(answered);
assert(failed.status === "failed" && failed.executed === "yes", JSON.stringify(failed));
assert(failed.resolution?.source === "search" && failed.resolution.response, JSON.stringify(failed));
assert(!failed.error.retryable, JSON.stringify(failed));
const resolve = (executed: "yes" | "no", note: string) =>
  client.POST("/v1/{kind}/{job_id}/resolution", {
    params: { path: { ...path, job_id: answered } },
    body: { executed, note },
  });
assert.equal((await resolve("yes", "asked by telephone")).data?.outcome, "known");
const contradicted = await resolve("no", "a guess");
assert(contradicted.error?.code === "illegal_state" && contradicted.response.status === 409);

const nowhere = await client.POST("/v1/{kind}", { params: { path: { kind: "nothing" } }, body: payload });
assert.equal(nowhere.error?.code, "unknown_kind");
const unknown = await poll(randomUUID());
assert(unknown.error?.code === "unknown_request" && unknown.error.detail);
const stranger = await createClient<paths>({ baseUrl }).GET("/v1/{kind}/{job_id}", stream);
assert.equal(stranger.error?.code, "unauthenticated");

console.log(`TypeScript: refused ${refusals} times, then`, ended.result);
