// A stream that comes back: says whether the page is live, and connects again with growing pauses.

import { readEvents, readJson, Refusal } from "./api.js";

const STALE_MS = 8000;
const MAX_PAUSE_MS = 3000;
const SLOW_MS = 3000; // between attempts that the service refuses for good reasons

export class Live {
  // `onData(data)` gets each event, `onStatus(status, text)` each change: live, connecting, lost, refused.
  constructor(path, onData, onStatus) {
    Object.assign(this, { path, onData, onStatus, closed: false, pause: 500 });
    this.onVisible = () => (document.hidden ? this.abort() : this.wake());
    document.addEventListener("visibilitychange", this.onVisible);
    this.run();
  }

  async run() {
    while (!this.closed) {
      if (document.hidden) await new Promise((resolve) => { this.wakeUp = resolve; });
      if (this.closed) return;
      this.onStatus("connecting", "Connecting…");
      const failure = await this.attempt();
      if (this.closed) return;
      if (document.hidden) continue;
      if (failure.status === 401) return this.onStatus("expired", failure.message);
      const refused = failure.status === 403 || failure.status === 404;
      this.onStatus(refused ? "refused" : "lost", failure.message);
      const wait = refused ? SLOW_MS : this.pause * (0.75 + Math.random() / 2);
      this.pause = Math.min(2 * this.pause, MAX_PAUSE_MS);
      await new Promise((resolve) => { this.wakeUp = resolve; setTimeout(resolve, wait); });
    }
  }

  // One connection; returns why it ended.
  async attempt() {
    this.controller = new AbortController();
    let failure = new Refusal(0, "The service ended the connection.");
    this.watchdog();
    try {
      await readEvents(this.path, this.controller.signal, (kind, text) => {
        this.watchdog();
        if (kind === "refused") {
          const { status, detail } = readJson(text);
          failure = new Refusal(status, detail);
          return;
        }
        this.pause = 500;
        try {
          this.onData(readJson(text));
          this.onStatus("live", "Live");
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          this.onStatus("lost", `${error.message} It was left out.`);
        }
      });
    } catch (error) {
      if (error instanceof Refusal) failure = error;
      else if (error.name !== "AbortError") failure = new Refusal(0, "The connection was lost.");
      else failure = new Refusal(0, "No data for a while.");
    } finally {
      clearTimeout(this.timer);
    }
    return failure;
  }

  watchdog() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.abort(), STALE_MS);
  }

  abort() {
    this.controller?.abort();
  }

  wake() {
    this.wakeUp?.();
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.onVisible);
    clearTimeout(this.timer);
    this.abort();
    this.wake();
  }
}
