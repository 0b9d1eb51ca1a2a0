// The charts of a portfolio, made from the columns of its timeline.

import { Chart } from "../chart.js";
import { h } from "../dom.js";
import { milliseconds, percent } from "../format.js";
import { numbered } from "../parts.js";

export const MAX_SHOWN = 7;
const POINT_SECONDS = 5;
const REST = "all others";

export class Panels {
  constructor() {
    this.perRound = false;
    this.logRegret = false;
    const toggle = (label, act) => {
      const box = h("input", { type: "checkbox", onchange: () => { act(box.checked); this.draw(); } });
      return h("label", { class: "toggle" }, box, label);
    };
    this.reward = new Chart({ title: "Mean reward of all decisions", hint: "Of the rewards that arrived between one point and the next. Rising is good; right after a start it may flatter, because good rewards often come sooner than bad ones." });
    this.shares = new Chart({ title: "Share of plays", unit: "(%)", hint: "Which learner got the traffic, between one point and the next.", stacked: true, format: (value) => percent(value, 0) });
    this.means = new Chart({ title: "Mean reward of each learner", hint: "Of its plays that count so far, with its confidence radius as a band: where bands do not overlap, the difference is not chance." });
    this.regret = new Chart({
      title: "Certified regret",
      hint: "Regret is reward lost against always acting best. It lies between the two lines with the confidence stated above.",
      min: 0,
      controls: [toggle("per round", (on) => { this.perRound = on; }), toggle("log scale", (on) => { this.logRegret = on; })],
    });
    this.traffic = new Chart({ title: "Traffic", unit: "(decisions per second)", min: 0 });
    this.open = new Chart({ title: "Waiting", unit: "(decisions)", hint: "Open decisions have no reward yet; overdue ones are past their deadline.", min: 0 });
    this.latency = new Chart({ title: "Time to answer", unit: "(ms, log scale)", hint: "From request to durable decision, of all portfolios of this service: median and 99th percentile.", format: milliseconds });
    this.all = [this.reward, this.shares, this.means, this.regret, this.traffic, this.open, this.latency];
    this.element = h("div", { class: "charts" }, this.all.map((chart) => chart.element));
  }

  close() {
    this.all.forEach((chart) => chart.close());
  }

  // columns and names as sent; shown: indices of learners; options: { axis: "time" | "round", logX, span }
  set(columns, names, shown, marks, options) {
    Object.assign(this, { columns, names, shown, marks, options, span: options.span }); // the span of these columns
    this.draw();
  }

  // Takes in the newest sample: a new point, or the last one again while it is younger than the points are apart.
  append(row, names, marks) {
    const { columns } = this;
    if (!columns) return;
    const n = columns.time.length;
    const newest = row.time.at(-1);
    if (n && newest <= columns.time[n - 1]) return;
    const at = n > 1 && newest - columns.time[n - 2] < POINT_SECONDS ? n - 1 : n;
    const put = (values, value) => { while (values.length < at) values.push(null); values[at] = value ?? null; };
    for (const [key, values] of Object.entries(row)) {
      if (!columns[key]) continue;
      if (Array.isArray(values[0])) values.forEach((own, i) => put(columns[key][i] ??= [], own.at(-1)));
      else put(columns[key], values.at(-1));
    }
    this.names = names;
    this.marks = marks;
    this.draw();
  }

  draw() {
    const { columns, names, shown, options } = this;
    if (!columns) return;
    const kind = options.axis === "time" && columns.time[0] !== null ? "time" : "round";
    const logX = kind === "round" && options.logX;
    let keep = columns.time.map((_, k) => k);
    if (kind === "round") keep = keep.filter((k) => columns.round[k] > (logX ? 0 : -1) && (k === 0 || columns.round[k] > columns.round[k - 1]));
    const pick = (values) => keep.map((k) => values?.[k] ?? null);
    const x = pick(kind === "time" ? columns.time : columns.round);
    const marks = numbered(this.marks).map((mark) => ({ x: kind === "time" ? mark.time : mark.round, label: mark.label, color: mark.kind === "eliminated" || mark.kind === "drift" ? "selector-1" : "quiet" }))
      .filter((mark) => Number.isFinite(mark.x) && x.length && mark.x >= x[0]);
    const base = { x, kind, logX, span: this.span };
    const colorOf = (i) => `learner-${(shown.indexOf(i) % MAX_SHOWN) + 1}`;

    this.reward.set({ ...base, marks, lines: [{ name: "mean reward", color: "learner-2", values: pick(columns.reward) }] });

    const gained = names.map((_, i) => gains(pick(columns.plays[i])));
    const totals = x.map((_, k) => gained.reduce((sum, own) => sum + (own[k] ?? 0), 0));
    const share = (own) => own.map((value, k) => (totals[k] > 0 ? (value ?? 0) / totals[k] : null));
    const lines = shown.map((i) => ({ name: names[i], color: colorOf(i), values: share(gained[i]) }));
    if (shown.length < names.length) {
      const rest = x.map((_, k) => names.reduce((sum, _, i) => (shown.includes(i) ? sum : sum + (gained[i][k] ?? 0)), 0));
      lines.push({ name: REST, color: "line", values: share(rest) });
    }
    this.shares.set({ ...base, marks, lines });

    this.means.set({ ...base, marks, lines: shown.map((i) => {
      const values = pick(columns.mean_rewards[i]);
      const radius = pick(columns.mean_radii[i]);
      return { name: names[i], color: colorOf(i), values, radius, ...band(values, radius, this.range) };
    }) });

    const perRound = (values) => (this.perRound ? values.map((value, k) => (value === null ? null : value / Math.max(pick(columns.round)[k], 1))) : values);
    this.regret.set({ ...base, marks, lines: [
      { name: this.perRound ? "at most, per round" : "at most", color: "selector-1", values: perRound(pick(columns.regret_upper)) },
      { name: this.perRound ? "at least, per round" : "at least", color: "quiet", dash: [5, 4], values: perRound(pick(columns.regret_lower)) },
    ] }, { log: this.logRegret });

    const seconds = gains(pick(columns.time));
    const rounds = gains(pick(columns.round));
    const note = kind === "round" && options.span === "all" ? "Only known over time: choose another range." : undefined;
    this.traffic.set({ ...base, marks, note, lines: [{ name: "decisions per second", color: "learner-2", values: rounds.map((n, k) => (n === null || !(seconds[k] > 0) ? null : n / seconds[k])) }] });
    this.open.set({ ...base, note, lines: [
      { name: "open", color: "learner-2", values: pick(columns.open) },
      { name: "overdue", color: "selector-1", dash: [5, 4], values: pick(columns.overdue) },
      { name: "failed updates", color: "selector-3", dash: [2, 3], values: pick(columns.failed_updates) },
    ] });
    this.latency.set({ ...base, note, lines: [
      { name: "median", color: "learner-2", values: pick(columns.median_ms) },
      { name: "p99", color: "selector-1", values: pick(columns.slow_ms) },
    ] }, { log: true });
  }

}

// Both ends of a band around a line, within the range of the rewards.
export function band(values, radius, range) {
  const [lowest, highest] = Array.isArray(range) && range.every(Number.isFinite) ? range : [-Infinity, Infinity];
  const end = (sign) => values.map((value, k) => (value === null || radius[k] === null ? null : Math.min(Math.max(value + sign * radius[k], lowest), highest)));
  return { low: end(-1), high: end(1) };
}

// Increase from one entry to the next; unknown at the first, and where a count began again.
function gains(values) {
  return values.map((value, k) => {
    const before = k ? values[k - 1] : null;
    return value === null || before === null || value < before ? null : value - before;
  });
}
