// Requests to the service. The token is kept in this module only: it is gone when the tab is closed or reloaded.

let token = null;

export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const hasToken = () => token !== null;
export const setToken = (value) => { token = value; };

function headers(more = {}) {
  return token === null ? more : { ...more, Authorization: `Bearer ${token}` };
}

const part = encodeURIComponent;
export const paths = {
  overview: "/v1/overview",
  watchOverview: "/v1/overview/live",
  view: (name) => `/v1/portfolios/${part(name)}/view`,
  watch: (name) => `/v1/portfolios/${part(name)}/live`,
  timeline: (name, span) => `/v1/portfolios/${part(name)}/timeline/${span}`,
  learner: (name, learner) => `/v1/portfolios/${part(name)}/learners/${part(learner)}`,
  decisions: (name) => `/v1/portfolios/${part(name)}/decisions`,
  decision: (name, id) => `/v1/portfolios/${part(name)}/decisions/${part(id)}`,
};

export async function request(path, { method = "GET", body, signal } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      signal,
      headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The service does not answer.");
  }
  if (!response.ok) throw await refusalOf(response);
  return readJson(await response.text());
}

export function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal(-1, "The service sent something that is not JSON.");
  }
}

async function refusalOf(response) {
  let detail = `The service answered with status ${response.status}.`;
  try {
    detail = (await response.json()).detail || detail;
  } catch {
    // A proxy answered; its status is all there is to say.
  }
  return new Refusal(response.status, detail);
}

// Reads server-sent events until the stream ends. EventSource cannot send a token, so this does what it would do.
export async function readEvents(path, signal, onEvent) {
  let response;
  try {
    response = await fetch(path, { headers: headers({ Accept: "text/event-stream" }), signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The service does not answer.");
  }
  if (!response.ok) throw await refusalOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = block.split("\n");
      const kind = fields.find((line) => line.startsWith("event: "))?.slice(7);
      const data = fields.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (kind) onEvent(kind, data);
    }
  }
}
