// One learner: why it plays as often as it does, its numbers over time, what happened to it, its newest decisions.

import { paths, request } from "../api.js";
import { Chart } from "../chart.js";
import { fill, h, table } from "../dom.js";
import { links, milliseconds, number, percent } from "../format.js";
import { badge, changeButton, DECISION_HEAD, decisionRows, markList, numbered } from "../parts.js";
import { band } from "./panels.js";
import { pairs } from "./portfolio.js";

export async function learnerView({ main, name, item, session, current }) {
  const load = () => Promise.all([request(paths.learner(name, item)), request(paths.timeline(name, "all"))]);
  let [about, timeline] = await load();
  const { view: first } = await request(paths.view(name));
  if (!current()) return null;
  const isAdmin = session.admin.includes(name);
  const share = new Chart({ title: "Share of plays", unit: "(%, over rounds, log scale)", hint: "Its part of the traffic between one point and the next.", min: 0, format: (value) => percent(value, 0) });
  const mean = new Chart({ title: "Mean reward and radius", unit: "(over rounds, log scale)", hint: "Of its plays that count so far." });
  const state = h("div", { class: "health" });
  const body = h("div", {});
  fill(main,
    h("nav", { "aria-label": "Path" }, h("a", { href: links.overview() }, "Portfolios"), " / ", h("a", { href: links.portfolio(name) }, name), " / ", h("span", { "aria-current": "page" }, item)),
    h("h1", {}, item), state,
    h("h2", {}, "Why does it play as often as it does?"), body,
    h("h2", {}, "Over time"), h("div", { class: "charts" }, share.element, mean.element),
    ...["What happened to it", "Compared with the others", "Its newest decisions"].flatMap((title) => [h("h2", {}, title), h("div", {})]));
  const [happened, compared, newest] = [...main.querySelectorAll(":scope > div")].slice(-3);

  const show = () => {
    const { learner, decisions } = about;
    fill(body, h("p", { class: "claim" }, learner.explanation), h("p", { class: "quiet" }, "Settings: ", h("code", {}, learner.setting)),
      learner.failed_update_rows.length ? [h("h3", {}, "Failed updates"), table("Failed updates", ["round", "error"], learner.failed_update_rows.map((row) => [number(row.round), row.error]), { left: [1] })] : null);
    fill(happened, markList(learner.marks, name));
    fill(compared, pairs(learner.pairs, name, "this learner"));
    fill(newest, decisions.length ? table("Its newest decisions", DECISION_HEAD, decisionRows(decisions, name), { left: [3, 4] })
      : h("p", { class: "quiet" }, "None of the newest decisions in the journal is of this learner."));
    draw();
  };
  const draw = () => {
    const { columns, names } = timeline;
    const i = names.indexOf(item);
    if (i < 0) return;
    const keep = columns.round.map((_, k) => k).filter((k) => columns.round[k] > 0 && (k === 0 || columns.round[k] > columns.round[k - 1]));
    const pick = (values) => keep.map((k) => values[k] ?? null);
    const own = pick(columns.plays[i]);
    const all = keep.map((k) => columns.plays.reduce((sum, plays) => sum + (plays[k] ?? 0), 0));
    const base = { x: pick(columns.round), kind: "round", logX: true, marks: numbered(about.learner.marks).map((mark) => ({ x: mark.round, label: mark.label })) };
    const gain = (values, k) => values[k] - (k ? values[k - 1] : 0);
    share.set({ ...base, lines: [{ name: "share of plays", color: "learner-2", values: own.map((_, k) => (gain(all, k) > 0 ? gain(own, k) / gain(all, k) : null)) }] });
    const values = pick(columns.mean_rewards[i]);
    const radius = pick(columns.mean_radii[i]);
    mean.set({ ...base, lines: [{ name: "mean reward", color: "learner-2", values, radius, ...band(values, radius, first.reward_range) }] });
  };
  const live = ({ view }) => {
    const row = view.standing.find((each) => each.name === item);
    const text = JSON.stringify(row);
    if (live.last === text) return;
    const focused = state.contains(document.activeElement) && document.activeElement.tagName === "BUTTON";
    live.last = text;
    if (!row) return fill(state, h("p", { class: "bad" }, "There is no learner of this name any more: it was renamed."));
    fill(state, badge(row.state),
      h("span", {}, `${number(row.plays)} plays, mean reward ${number(row.reward)} (of what counts: ${number(row.mean_reward)} ± ${number(row.mean_radius, 2)}), decides in ${milliseconds(row.decide_ms)}, learns in ${milliseconds(row.learn_ms)}, ${number(row.failures)} failures`),
      row.last_error ? h("span", { class: "quiet" }, `last error: ${row.last_error}`) : null,
      isAdmin ? changeButton(name, row) : null);
    if (focused) state.querySelector("button")?.focus();
  };
  live({ view: first });
  show();
  const timer = setInterval(async () => {
    if (document.hidden) return;
    try {
      const loaded = await load();
      if (!current()) return;
      [about, timeline] = loaded;
      show();
    } catch {
      // The line at the top says that the connection is lost.
    }
  }, 10000);
  return { data: live, close() { clearInterval(timer); share.close(); mean.close(); } };
}
