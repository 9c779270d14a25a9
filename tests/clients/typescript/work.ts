// A program with the client that openapi-typescript makes: applies a job, runs it, lists its batches, and reads a refusal.
// Each `@ts-expect-error` is a mistake that the types have to find: without one there, the compiler refuses this file.

import createClient from "openapi-fetch";

import type { components, operations, paths } from "./api.js";

type Problem = components["schemas"]["Problem"];
type Batch = components["schemas"]["BatchView"];
type BatchFilter = operations["listBatches"]["parameters"]["query"];

const PATIENCE_MS = 30_000;
const JOB = { group: "default", name: "from-typescript", type: "noop" } satisfies components["schemas"]["JobSpec"];

const { TIDEMILL_SERVER: baseUrl, TIDEMILL_KEY: key } = process.env;
if (!baseUrl || !key) {
  throw new Error("TIDEMILL_SERVER and TIDEMILL_KEY have to name the server and its key");
}
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

/** What was answered; a problem is thrown. */
function done<T>(answer: { data?: T; error?: Problem }): T {
  if (answer.error || answer.data === undefined) {
    throw new Error(`${answer.error?.code}: ${answer.error?.detail}`);
  }
  return answer.data;
}

async function applied(): Promise<string | undefined> {
  const answer = await client.POST("/api/jobs/apply", {
    body: { jobs: [JOB] },
    params: { header: { "Idempotency-Key": "from-typescript" } },
  });
  const [change] = done(answer).changes;
  if (change?.change !== "added" || change.name !== "default/from-typescript") {
    throw new Error(`not added: ${JSON.stringify(change)}`);
  }
  return done(answer).position ?? undefined;
}

async function run(position: string | undefined): Promise<{ job: number; batch: number }> {
  const path = { group: JOB.group, job: JOB.name };
  const job = done(await client.GET("/api/groups/{group}/jobs/{job}", { params: { path, query: { at_least: position } } }));
  const started = done(
    await client.POST("/api/jobs/{id}/run", {
      params: { path: { id: job.id } },
      body: { logical_time: "2026-01-01T00:00:00Z", parameters: { city: "Berlin" } },
    }),
  );
  return { job: job.id, batch: started.batch };
}

/** Every batch of the job, part by part. */
async function batches(job: number): Promise<Batch[]> {
  const found: Batch[] = [];
  for (let cursor: string | undefined; ; ) {
    const query: BatchFilter = { job, state: "finished", limit: 1, cursor };
    const part = done(await client.GET("/api/batches", { params: { query } }));
    found.push(...part.items);
    if (!part.next) {
      return found;
    }
    cursor = part.next;
  }
}

async function finished(job: number, batch: number): Promise<Batch> {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline) {
    const found = (await batches(job)).find((it) => it.id === batch);
    if (found) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`batch ${batch} has not finished within ${PATIENCE_MS} ms`);
}

/** The refusal of a job with two wrong fields, which names both. */
async function refused(): Promise<Problem> {
  const answer = await client.POST("/api/jobs/apply", { body: { jobs: [{ ...JOB, name: "a/b", retries: -1 }] } });
  if (!answer.error) {
    throw new Error("a job with wrong fields was taken");
  }
  return answer.error;
}

/** Compiled, and never called. */
export async function mistakes(): Promise<void> {
  // @ts-expect-error There is no such call.
  await client.GET("/api/batchez");
  // @ts-expect-error There is no such parameter.
  await client.GET("/api/batches", { params: { query: { stat: "finished" } } });
  // @ts-expect-error It has no such value.
  await client.GET("/api/batches", { params: { query: { state: "ended" } } });
  // @ts-expect-error A job has a type.
  await client.POST("/api/jobs/apply", { body: { jobs: [{ group: "default", name: "x" }] } });
  const { data } = await client.GET("/api/batches");
  // @ts-expect-error A batch has no such field.
  data?.items[0]?.logical_tim;
}

const { job, batch } = await run(await applied());
const { result, logical_time, parameters } = await finished(job, batch);
const { code, status, errors } = await refused();
const fields = errors.map(({ field, rule }) => ({ field, rule }));
console.log(JSON.stringify({ batch, result, logical_time, parameters, code, status, fields }));
