import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, it } from "node:test";
import { Client, ServiceError, type Settings } from "../src/client.js";

type Request = { path: string; body: any; headers: IncomingMessage["headers"] };
type Reply = { status?: number; headers?: Record<string, string>; body?: unknown } | undefined;

const DECIDED = {
  action: 0,
  action_id: "a",
  learner: "UCB",
  drawn: "UCB",
  learner_probability: 1,
  action_probability: null,
  propensity: 0.5,
};
const BUSY = { status: 503, body: { type: "urn:equipoise:problem:overloaded", detail: "busy", request_id: "r1" } };
const closing: (() => void)[] = [];
afterEach(() => closing.splice(0).forEach((close) => close()));

/** A service that answers request n as the script says; undefined ends the connection. */
async function serve(script: (n: number, request: Request) => Reply, settings: Settings = {}) {
  const seen: Request[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    let text = "";
    for await (const piece of request) text += piece;
    const isBatch = request.headers["content-type"] === "application/x-ndjson";
    const body = isBatch ? text.split("\n").map((line) => JSON.parse(line)) : text && JSON.parse(text);
    seen.push({ path: request.url!, body, headers: request.headers });
    const reply = script(seen.length, seen.at(-1)!);
    if (!reply) return void request.socket.destroy();
    const answer = reply.body ?? {};
    response.writeHead(reply.status ?? 200, reply.headers);
    const rows = Array.isArray(answer) ? answer : [answer];
    response.end(rows.map((row) => JSON.stringify(row) + "\n").join(""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => (server.closeAllConnections(), server.close()));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { client: new Client(url, "arms", { backoff: 1, ...settings }), seen, url };
}

const decided = (_: number, { body }: Request): Reply => ({ body: { id: body.id, ...DECIDED } });

describe("a request", () => {
  it("is repeated with its id until it is answered", async () => {
    const replies = [undefined, BUSY, { status: 502, body: "proxy" }];
    const { client, seen } = await serve((n, request) => (n <= 3 ? replies[n - 1] : decided(n, request)), {
      token: "secret",
    });
    const decision = await client.decide({ context: { device: "phone" }, exclude: ["b"] });
    assert.equal(seen.length, 4);
    assert.equal(new Set(seen.map(({ body }) => JSON.stringify(body))).size, 1);
    assert.match(decision.id, /^[0-9a-f]{32}$/);
    assert.deepEqual(decision, { id: seen[0]!.body.id, ...DECIDED });
    assert.equal(seen[0]!.path, "/v1/portfolios/arms/decide");
    assert.equal(seen[0]!.headers["authorization"], "Bearer secret");
  });

  it("has an id of its own", async () => {
    const { client, seen } = await serve(decided);
    await Promise.all(Array.from({ length: 50 }, () => client.decide()));
    assert.equal(new Set(seen.map(({ body }) => body.id)).size, 50);
    await client.decide({ unit: "user-7" });
    assert.deepEqual(Object.keys(seen.at(-1)!.body).sort(), ["id", "unit"]);
    await client.decide({ unit: "user-7", id: "mine" });
    assert.deepEqual(seen.at(-1)!.body, { unit: "user-7", id: "mine" });
  });

  it("waits as long as the service says", async () => {
    const { client } = await serve((n) => (n > 1 ? {} : { ...BUSY, headers: { "Retry-After": "1" } }));
    const start = Date.now();
    await client.withdraw("x");
    assert.ok(Date.now() - start >= 995);
  });

  it("is not repeated after a refusal", async () => {
    const problem = { type: "urn:equipoise:problem:duplicate-reward", detail: "no", request_id: "r7" };
    const { client, seen } = await serve(() => ({ status: 409, body: problem }));
    await assert.rejects(client.reward("x", 1), (error: ServiceError) => {
      assert.deepEqual([error.status, error.kind, error.requestId], [409, "duplicate-reward", "r7"]);
      return error.message === "no (duplicate-reward, status 409, request r7)";
    });
    assert.equal(seen.length, 1);
  });

  it("is given up after the last repetition, or after all of its time", async () => {
    const { client, seen, url } = await serve(() => BUSY, { retries: 2 });
    await assert.rejects(client.status(), { status: 503, kind: "overloaded" });
    assert.equal(seen.length, 3);
    const hasty = new Client(url, "arms", { backoff: 10_000, total: 4_000 });
    await assert.rejects(hasty.status(), { status: 503 });
    assert.equal(seen.length, 4);
    await assert.rejects(new Client("http://127.0.0.1:9", "arms", { retries: 0 }).status(), { kind: "unreachable" });
  });

  it("is given up if an attempt takes too long", async () => {
    const server = createServer(() => undefined);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(() => (server.closeAllConnections(), server.close()));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = new Client(url, "arms", { timeout: 30, retries: 1, backoff: 1 });
    await assert.rejects(client.decide(), { status: 0, kind: "unreachable" });
  });

  it("ends when its signal says so", async () => {
    const { client, seen } = await serve(() => BUSY, { backoff: 10_000 });
    const stop = new AbortController();
    const waiting = client.decide({}, stop.signal);
    while (!seen.length) await new Promise((resolve) => setTimeout(resolve, 5));
    stop.abort();
    await assert.rejects(waiting, { name: "AbortError" });
    await assert.rejects(client.decide({}, stop.signal), { name: "AbortError" });
    assert.equal(seen.length, 1);
  });

  it("is refused if it is not JSON", async () => {
    const { client, seen } = await serve(decided);
    await assert.rejects(client.reward("x", Number.NaN), /reward is NaN, which cannot be sent as JSON/);
    await assert.rejects(client.decide({ context: { age: Infinity } }), /age is Infinity/);
    assert.equal(seen.length, 0);
    assert.throws(() => new Client("localhost", "arms"), { code: "ERR_INVALID_URL" });
  });

  it("fails if another program answers", async () => {
    const { client } = await serve(() => ({ body: [] }));
    await assert.rejects(client.status(), { kind: "unexpected-answer" });
    await assert.rejects(client.rewards([{ id: "a", reward: 1 }]), { kind: "unexpected-answer" });
  });
});

describe("a batch", () => {
  it("has an outcome for each line, and repeats the lines that were refused for load", async () => {
    const { client, seen } = await serve((n, { body }) => ({
      body: body.map((row: any, k: number) => {
        const status = row.id === "bad" ? 404 : n === 1 && k % 2 ? 503 : 200;
        return status === 200 ? { line: k + 1, status } : { line: k + 1, status, problem: { type: "x:kind", status } };
      }),
    }));
    const rewards = ["a", "b", "bad", "d", "e"].map((id) => ({ id, reward: 1 }));
    const outcomes = await client.rewards(rewards);
    assert.deepEqual(seen.map(({ body }) => body.map((row: any) => row.id)), [["a", "b", "bad", "d", "e"], ["b", "d"]]);
    assert.deepEqual(outcomes.map(({ id, error }) => [id, error?.status]), [
      ["a", undefined],
      ["b", undefined],
      ["bad", 404],
      ["d", undefined],
      ["e", undefined],
    ]);
    assert.deepEqual(await client.rewards([]), []);
  });

  it("of decisions has an id for each", async () => {
    const { client, seen } = await serve((_, { body }) => ({
      body: body.map((row: any, k: number) => ({ line: k + 1, status: 200, decision: { id: row.id, ...DECIDED } })),
    }));
    const outcomes = await client.decideMany([{ id: "mine" }, {}, {}]);
    assert.equal(new Set(seen[0]!.body.map((row: any) => row.id)).size, 3);
    assert.deepEqual(outcomes.map(({ decision }) => decision?.id), outcomes.map(({ id }) => id));
    assert.equal(outcomes[0]!.id, "mine");
  });
});

const { EQUIPOISE_URL: url, EQUIPOISE_DROPPING_URL: dropping } = process.env;

describe("a real service", { skip: !url || !dropping }, () => {
  it("decides once and learns once, although answers are lost", async () => {
    const client = new Client(dropping!, "arms", { backoff: 5, retries: 20 });
    const decisions = await Promise.all(Array.from({ length: 30 }, () => client.decide()));
    const batch = await client.decideMany(decisions.map(({ id }) => ({ id: `${id}-2` })));
    for (const { id, decision } of batch) decisions.push({ ...decision!, id });
    for (const { id, action } of decisions.slice(0, 30)) await client.reward(id, action / 4);
    const outcomes = await client.rewards(decisions.slice(30).map(({ id, action }) => ({ id, reward: action / 4 })));
    assert.ok(outcomes.every(({ error }) => !error));
    const { health, standing } = await new Client(url!, "arms").status();
    assert.deepEqual([health.rounds, health.open], [60, 0]);
    assert.equal(standing.reduce((plays, row) => plays + row.plays, 0), 60);
    for (const decision of decisions) assert.deepEqual(await client.decide({ id: decision.id }), decision);
  });

  it("fills slates, withdraws and refuses", async () => {
    const client = new Client(url!, "linear");
    const offers = ["a", "b", "c"].map((id, k) => ({ id, features: { price: k / 4 } }));
    const slots = await client.slate(2, { offers, exclude: ["a"] });
    assert.deepEqual(slots.map(({ action_id }) => action_id).sort(), ["b", "c"]);
    for (const { id } of slots) await client.withdraw(id);
    await assert.rejects(client.reward(slots[0]!.id, 1), { status: 409 });
    await assert.rejects(client.decide({ offers: [{ id: "a", features: { weight: 1 } }] }), { status: 422 });
    await assert.rejects(new Client(url!, "nothing").decide(), { status: 404, kind: "unknown-portfolio" });
  });
});
