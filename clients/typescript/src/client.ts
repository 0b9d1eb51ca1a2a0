/**
 * A client of the service of `equipoise serve`, which needs `fetch` only. It repeats requests that got no answer, or
 * that the service was too busy for, with growing pauses. That is safe because every decision has an id: yours, or one
 * that the client makes. A repeated request gets the decision that was made, and a reward counts once.
 */
export type Context = Record<string, unknown> | unknown[];
export type Offer = { id?: string | null; features?: Context | null };

/** What to decide. A `unit` gets the same decision again until the `sticky` of the portfolio has passed. */
export interface Round {
  context?: Context | null;
  offers?: Offer[] | null; // default: the actions of the configuration
  exclude?: string[] | null; // ids of offers that must not be chosen
  available?: string[] | null; // names of the learners that can act
  unit?: string | null;
  id?: string | null; // default: a random one
}

/** A decision: `learner` acts, and `drawn` gets the credit. A probability that is unknown is null. */
export interface Decision {
  id: string;
  action: any; // an index, or what the learners give
  action_id: string | null;
  learner: string | null;
  drawn: string | null;
  learner_probability: number | null;
  action_probability: number | null;
  propensity: number | null;
}

/** The reward of a decision; `key` tells several rewards of one decision apart. */
export type Reward = { id: string; reward: number; key?: string | null };

/** The result of a line of a batch: an error, or else, in a batch of decisions, a decision. */
export type Outcome = { id: string; decision?: Decision; error?: ServiceError };

export type Problem = { type: string; title: string; status: number; detail?: string; request_id?: string };
export type Line = { line: number; status: number; id?: string; decision?: Decision; problem?: Problem };
type Table = Record<string, any>;
export type Status = { name: string; standing: Table[]; certificate: Table; health: Table; description: string };

/** The service refused a request, or gave no answer (status 0); `kind` is such as "duplicate-decision". */
export class ServiceError extends Error {
  override name = "ServiceError";
  constructor(readonly status: number, readonly kind: string, readonly detail: string, readonly requestId = "") {
    super(status ? `${detail} (${kind}, status ${status}${requestId && `, request ${requestId}`})` : detail);
  }
}

/** Settings of a client; times are in milliseconds. */
export interface Settings {
  token?: string; // the secret of a token, if the service has tokens
  timeout?: number; // of one attempt; default 5,000
  retries?: number; // of a request; default 5
  backoff?: number; // the first pause before a repetition, which doubles each time; default 100
  total?: number; // of a request with its repetitions; default 60,000
}

const [REPEATED, MAX_PAUSE] = [[408, 429, 502, 503, 504], 10_000];

/** A client for one portfolio; any number of requests can be under way. */
export class Client {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #settings: Required<Omit<Settings, "token">>;

  constructor(url: string, portfolio: string, { token, ...settings }: Settings = {}) {
    this.#url = `${new URL(url).href.replace(/\/+$/, "")}/v1/portfolios/${encodeURIComponent(portfolio)}`;
    this.#headers = { Accept: "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
    this.#settings = { timeout: 5_000, retries: 5, backoff: 100, total: 60_000, ...settings };
  }

  /** Decide a round. */
  async decide(round: Round = {}, signal?: AbortSignal): Promise<Decision> {
    return this.#json("/decide", withId(round), signal);
  }

  /** Decide `k` different offers at once, each with an id, propensity and reward of its own. */
  async slate(k: number, round: Round = {}, signal?: AbortSignal): Promise<Decision[]> {
    return (await this.#json("/decide", { ...withId(round), k }, signal)).slots;
  }

  /** Decide up to 1,000 rounds in one request of up to 1 MiB; one that is refused does not affect the others. */
  async decideMany(rounds: Iterable<Round>, signal?: AbortSignal): Promise<Outcome[]> {
    return this.#batch("/decide", Array.from(rounds, withId), signal);
  }

  /** Give the reward of a decision; the same reward again changes nothing, another one is an error. */
  async reward(id: string, reward: number, key?: string, signal?: AbortSignal): Promise<void> {
    await this.#json("/rewards", { id, reward, key }, signal);
  }

  /** Give up to 1,000 rewards in one request; one that is refused does not affect the others. */
  async rewards(rewards: Iterable<Reward>, signal?: AbortSignal): Promise<Outcome[]> {
    return this.#batch("/rewards", Array.from(rewards), signal);
  }

  /** Withdraw a decision whose round did not happen. */
  async withdraw(id: string, signal?: AbortSignal): Promise<void> {
    await this.#json("/withdraw", { id }, signal);
  }

  /** Get standing, certificate and health of the portfolio. */
  async status(signal?: AbortSignal): Promise<Status> {
    return this.#json("", undefined, signal);
  }

  async #json(path: string, body?: object, signal?: AbortSignal): Promise<any> {
    return parsed(await this.#send(path, body && encoded(body), "application/json", signal));
  }

  /** Send lines; repeat the ones that the service was too busy for. */
  async #batch(path: string, bodies: (Round | Reward)[], signal?: AbortSignal): Promise<Outcome[]> {
    const [lines, outcomes] = [bodies.map(encoded), [] as Outcome[]];
    let waiting = [...lines.keys()];
    for (let attempt = 0; waiting.length; attempt++) {
      const body = waiting.map((k) => lines[k]).join("\n");
      const text = await this.#send(path, body, "application/x-ndjson", signal);
      const answers: Line[] = text.split("\n").filter(Boolean).map(parsed);
      if (answers.length !== waiting.length) throw unexpected(`${answers.length} lines for ${waiting.length}`);
      waiting = waiting.filter((k, i) => {
        const { decision, problem, status } = answers[i]!;
        const id = decision?.id ?? bodies[k]!.id ?? "";
        outcomes[k] = problem ? { id, error: refusal(status, problem) } : { id, ...(decision && { decision }) };
        return REPEATED.includes(status);
      });
      if (!waiting.length || attempt >= this.#settings.retries) break;
      await pause(this.#backoff(attempt), signal);
    }
    return outcomes;
  }

  /** Get the text of the answer; repeat what failed on the way, or what the service was too busy for. */
  async #send(path: string, body: string | undefined, type: string, signal?: AbortSignal): Promise<string> {
    const { timeout, retries, total } = this.#settings;
    const end = Date.now() + total;
    const form = body === undefined ? { method: "GET" } : { method: "POST", body };
    const headers = body === undefined ? this.#headers : { ...this.#headers, "Content-Type": type };
    for (let attempt = 0; ; attempt++) {
      const limit = AbortSignal.timeout(Math.max(Math.min(timeout, end - Date.now()), 1));
      let [wait, error] = [this.#backoff(attempt), unexpected("")];
      try {
        const within = signal ? AbortSignal.any([limit, signal]) : limit;
        const response = await fetch(this.#url + path, { ...form, headers, signal: within, redirect: "manual" });
        const text = await response.text();
        if (response.ok) return text;
        error = refusal(response.status, text.startsWith("{") ? parsed(text) : {}); // else a proxy answered
        wait = Math.max(wait, Math.min(Number(response.headers.get("Retry-After")) * 1_000 || 0, MAX_PAUSE));
      } catch (failure) {
        signal?.throwIfAborted();
        const { message } = ((failure as Error).cause ?? failure) as Error;
        error = new ServiceError(0, "unreachable", `${this.#url} gave no answer: ${message}`);
      }
      const isFinal = error.status > 0 && !REPEATED.includes(error.status);
      if (isFinal || attempt >= retries || Date.now() + wait >= end) throw error;
      await pause(wait, signal);
    }
  }

  #backoff(attempt: number): number {
    return Math.min(this.#settings.backoff * 2 ** attempt, MAX_PAUSE) * (0.5 + Math.random());
  }
}

/** Without an id of the caller a round gets a random one, so that it can be repeated. */
function withId(round: Round): Round {
  if (round.id != null) return round;
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return { ...round, id: Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("") };
}

const encoded = (body: object): string =>
  JSON.stringify(body, (key, value) => {
    if (typeof value !== "number" || Number.isFinite(value)) return value;
    throw new TypeError(`${key} is ${value}, which cannot be sent as JSON`);
  });

function parsed(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    throw unexpected(text.slice(0, 80));
  }
}

const unexpected = (text: string) => new ServiceError(200, "unexpected-answer", `not of the service: ${text}`);

function refusal(status: number, problem: Partial<Problem>): ServiceError {
  const { type = "unknown", title = "the request was refused", detail = title, request_id = "" } = problem;
  return new ServiceError(status, type.slice(type.lastIndexOf(":") + 1), detail, request_id);
}

function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => (clearTimeout(timer), reject(signal?.reason));
    const timer = setTimeout(() => (signal?.removeEventListener("abort", stop), resolve()), milliseconds);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
}
