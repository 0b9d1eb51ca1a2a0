// One decision: who proposed what, why this learner, its probabilities, its reward, the trail of events.

import { paths, request } from "../api.js";
import { fill, h, table } from "../dom.js";
import { duration, links, NONE, number, time } from "../format.js";
import { actionText } from "../parts.js";

const STATES = { open: "It waits for its reward.", rewarded: "It has its reward.", expired: "Its deadline passed: the rewards that came before it count or, if there were none, the default reward.", withdrawn: "It was withdrawn: its round did not happen." };

export async function decisionView({ main, name, item, current }) {
  let last = null;
  const body = h("div", {});
  const show = (decision) => {
    const text = JSON.stringify(decision);
    if (text === last) return;
    last = text;
    fill(body, content(decision, name));
  };
  const { decision: first } = await request(paths.decision(name, item));
  if (!current()) return null;
  fill(main,
    h("nav", { "aria-label": "Path" }, h("a", { href: links.overview() }, "Portfolios"), " / ", h("a", { href: links.portfolio(name) }, name), " / ", h("span", { "aria-current": "page" }, "decision")),
    h("h1", { class: "break" }, `Decision ${item}`), body);
  show(first);
  let state = first.state;
  let busy = false;
  return {
    async data() {
      if (state !== "open" || busy) return;
      busy = true;
      try {
        const { decision } = await request(paths.decision(name, item));
        state = decision.state;
        if (current()) show(decision);
      } catch {
        // The line at the top says that the connection is lost.
      } finally {
        busy = false;
      }
    },
  };
}

function content(decision, name) {
  const chosen = decision.action_id ?? actionText(decision.action);
  const end = decision.trail.find((event) => event.kind === decision.state);
  const facts = [
    ["Learner", decision.learner === null ? "no learner" : h("a", { href: links.learner(name, decision.learner) }, decision.learner)],
    ...(decision.drawn === null || decision.drawn === decision.learner ? [] : [["Drawn", h("a", { href: links.learner(name, decision.drawn) }, decision.drawn)]]),
    ["Action", chosen],
    ["Reward", decision.reward === null ? NONE : `${number(decision.reward)}${end ? `, after ${duration(end.time - decision.time)}` : ""}`],
    ["Round", number(decision.round)],
    ["Time", time(decision.time)],
  ];
  const chances = [
    ["that this learner is drawn", decision.learner_probability],
    ["that the learner that acts chooses this action", decision.action_probability],
    ["that the portfolio chooses this action", decision.propensity],
  ];
  return [
    h("p", { class: "claim" }, STATES[decision.state] ?? decision.state),
    h("dl", { class: "tiles" }, facts.map(([term, value]) => h("div", { class: "tile" }, h("dt", {}, term), h("dd", {}, h("b", {}, value))))),
    h("h2", {}, "Why this learner?"), h("p", {}, decision.reason), h("p", { class: "quiet" }, decision.rule),
    h("h2", {}, "Probabilities"),
    table("Probabilities", ["probability", "value"], chances.map(([text, value]) => [text, value === null ? "unknown" : number(value)])),
    h("p", { class: "quiet" }, "The last one is the propensity, for estimates from logs. Unknown: it was not computed, or a learner cannot tell; the health of the portfolio says which."),
    h("h2", {}, "Who proposed what?"),
    decision.proposals.length ? table("Proposals", ["learner", "action", "its estimate of the reward", "at least", "probability of the action"], decision.proposals.map((row) => [
      [row.learner, row.played ? h("b", {}, " ← played") : ""], row.action_id ?? actionText(row.action), number(row.value), number(row.lower), number(row.probability)]), { left: [1] })
      : h("p", { class: "quiet" }, "No learner was asked."),
    decision.proposals.length === 1 ? h("p", { class: "quiet" }, "Only the learner that acted proposed an action: this selector draws before it sees proposals.") : null,
    h("h2", {}, "Trail of events"),
    table("Events of this decision", ["event", "number in the journal", "time", "particulars"], decision.trail.map((event) => [
      event.kind, number(event.seq), time(event.time), h("code", {}, particulars(event.data))]), { left: [3] }),
    h("p", { class: "quiet" }, "The context of the decision is in the journal; it is not shown, because it may be about a person."),
  ];
}

function particulars(data) {
  const text = Object.entries(data).map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
  return text.length > 300 ? `${text.slice(0, 299)}…` : text;
}
