// Parts that several views use: the state of a portfolio, its events, comparisons of learners, changes.

import { paths, request } from "./api.js";
import { announce, confirm, h } from "./dom.js";
import { duration, links, NONE, number, percent, plural, time } from "./format.js";

// The states of a learner, by code; a test compares codes and words with those of the package.
export const STATES = {
  active: { word: "active", mark: "●", kind: "good", meaning: "may be chosen", change: "Suspend" },
  suspended: { word: "suspended", mark: "■", kind: "warn", meaning: "by request, until it is resumed", change: "Resume" },
  paused: { word: "paused after failures", mark: "▲", kind: "bad", meaning: "it failed several times in a row and is tried again later", change: "Resume" },
  eliminated: { word: "eliminated", mark: "✕", kind: "quiet", meaning: "its rewards contradict its bound, so it gets no more traffic" },
  inactive: { word: "inactive", mark: "○", kind: "quiet", meaning: "its rewards contradict its bound for now" },
  excluded: { word: "never played", mark: "–", kind: "quiet", meaning: "the selector never plays it, because another learner is too similar" },
  removed: { word: "removed", mark: "–", kind: "quiet", meaning: "it was removed by request" },
};
export const stateWord = (state) => STATES[state]?.word ?? state;

export function badge(state) {
  const { word, mark, kind, meaning } = STATES[state] ?? { word: state, mark: "●", kind: "quiet", meaning: state };
  return h("span", { class: `badge ${kind}`, title: meaning }, `${mark} ${word}`);
}

// What is wrong with a portfolio, the worst first; nothing if all is well.
export function problems(row) {
  const found = [];
  if (row.failure) found.push(["bad", `nothing is accepted: ${row.failure}`]);
  if (row.learners?.paused) found.push(["bad", `${plural(row.learners.paused, "learner")} ${STATES.paused.word}`]);
  if (row.failed_updates) found.push(["warn", plural(row.failed_updates, "failed update")]);
  if (row.overdue) found.push(["warn", `${plural(row.overdue, "overdue decision")}`]);
  if (row.blocking) found.push(["warn", `${plural(row.blocking, "missing reward holds", "missing rewards hold")} up a hundred others or more`]);
  if (row.learners?.suspended) found.push(["note", `${plural(row.learners.suspended, "learner")} suspended by request`]);
  return found;
}

export function health(row) {
  const found = problems(row);
  if (!found.length) return h("span", { class: "badge good" }, "● all well");
  return found.map(([kind, text]) => h("span", { class: `badge ${kind}` }, `${kind === "note" ? "■" : "▲"} ${text}`));
}

// Mean reward now against the start: text, and whether it rose.
export function progress(row) {
  const now = row.recent_reward ?? row.reward;
  const start = row.start_reward;
  if (!Number.isFinite(now)) return { now: NONE, text: "no reward yet", kind: "quiet" };
  if (!Number.isFinite(row.recent_reward) || !Number.isFinite(start)) return { now: number(now), text: "since the start", kind: "quiet" };
  const change = start > 0 ? (now - start) / start : 0;
  const text = Math.abs(change) < 0.005 ? "" : ` (${change > 0 ? "+" : "−"}${percent(Math.abs(change), 0)})`;
  return { now: number(now), text: `${number(start)} at the start${text}`, kind: change >= 0.005 ? "good" : change <= -0.005 ? "warn" : "quiet" };
}

const SHOWN_MARKS = 20;

// The newest marks, numbered as in the charts; one after the other for the same reason are one.
export function numbered(marks) {
  const groups = [];
  for (const mark of marks ?? []) {
    const last = groups.at(-1);
    if (last && last.kind === mark.kind && last.name === mark.name && last.reason === mark.reason) {
      last.times += 1;
      last.last = mark;
    } else {
      groups.push({ ...mark, times: 1, last: mark });
    }
  }
  return groups.map((mark, k) => ({ ...mark, label: String(k + 1) })).slice(-SHOWN_MARKS);
}

export function markList(marks, name) {
  const shown = numbered(marks);
  if (!shown.length) return h("p", { class: "quiet" }, "No events yet.");
  const item = (mark) => h("li", { value: mark.label },
    mark.name ? [h("a", { href: links.learner(name, mark.name) }, mark.name), " "] : null,
    h("b", {}, mark.word),
    mark.times > 1 ? ` ${number(mark.times)} times, from round ${number(mark.round)} to ${number(mark.last.round)}` : ` in round ${number(mark.round)}`,
    Number.isFinite(mark.time) ? h("span", { class: "quiet" }, ` (${time(mark.time)}${mark.times > 1 ? ` to ${time(mark.last.time)}` : ""})`) : null,
    Number.isFinite(mark.until) && mark.times === 1 ? `, until round ${number(mark.until)}` : null,
    mark.reason ? `: ${mark.reason}` : "", ".");
  return h("ol", { class: "marks" }, shown.reverse().map(item));
}

export function pairSentence(row, leader) {
  const { lower, upper } = row;
  if (!Number.isFinite(lower) || !Number.isFinite(upper)) return "nothing is known";
  if (lower > 0) return `has lost between ${number(lower)} and ${number(upper)} more per play than ${leader}`;
  if (upper < 0) return `has lost between ${number(-upper)} and ${number(-lower)} less per play than ${leader}`;
  return `cannot be told apart from ${leader} yet (at most ${number(-lower)} better, at most ${number(upper)} worse)`;
}

export const pairKind = ({ lower, upper }) => (lower > 0 ? "worse" : upper < 0 ? "better" : "open");

export function decisionRows(decisions, name) {
  return decisions.map((row) => [
    h("a", { href: links.decision(name, row.id) }, row.id),
    time(row.time), number(row.round), row.learner ?? "no learner",
    row.action_id ?? actionText(row.action), number(row.learner_probability, 3),
  ]);
}
export const DECISION_HEAD = ["id", "time", "round", "learner", "action", "probability of the learner"];

export function actionText(action) {
  const text = typeof action === "string" ? action : JSON.stringify(action);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

export const age = (row) => (Number.isFinite(row?.age_seconds) ? duration(row.age_seconds) : plural(row?.age_rounds ?? 0, "round"));

export function changeButton(name, row) {
  const verb = STATES[row.state]?.change;
  if (!verb) return null;
  const resumes = verb === "Resume";
  const explanation = resumes
    ? "It may be chosen again from the next round on, and gets traffic as the selector sees fit."
    : "It gets no traffic until it is resumed; the other learners play instead. It continues to learn, and nothing is deleted.";
  const change = async (event) => {
    const button = event.currentTarget;
    if (!(await confirm(`${verb} ${row.name}?`, explanation, verb))) return button.focus();
    button.disabled = true;
    try {
      await request(paths.learner(name, row.name), { method: "PATCH", body: { state: resumes ? "active" : "suspended" } });
      announce(`${row.name} was ${resumes ? "resumed" : "suspended"}.`);
    } catch (error) {
      announce(`${row.name} was not changed: ${error.message}`, "bad");
    }
    button.disabled = false;
  };
  return h("button", { type: "button", class: "small", onclick: change, "aria-label": `${verb} ${row.name}` }, verb);
}
