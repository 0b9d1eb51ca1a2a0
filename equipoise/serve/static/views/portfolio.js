// One portfolio: what is proved, the charts, what happened, learners, what is stuck, decisions.

import { paths, request } from "../api.js";
import { announce, fill, h, table } from "../dom.js";
import { duration, links, milliseconds, NONE, number, percent, plural, short } from "../format.js";
import { age, badge, changeButton, DECISION_HEAD, decisionRows, health, markList, pairKind, pairSentence, progress } from "../parts.js";
import { MAX_SHOWN, Panels } from "./panels.js";

const SPANS = { "15m": "15 minutes", "2h": "2 hours", "1d": "1 day", "1w": "1 week", "90d": "90 days", all: "all rounds" };
const REFRESH_MS = 15000;

export async function portfolioView({ main, name, session, current }) {
  const [{ view: first }, timeline] = await Promise.all([request(paths.view(name)), request(paths.timeline(name, "15m"))]);
  if (!current()) return null;
  const isAdmin = session.admin.includes(name);
  const panels = new Panels();
  let state = first;
  let shown = mostPlayed(first.standing);
  const options = { span: "15m", axis: "time", logX: false };

  const sections = Object.fromEntries(["top", "tiles", "marks", "learners", "pairs", "stuck", "decisions"].map((key) => [key, h("div", {})]));
  const setColumns = ({ columns, names }) => panels.set(columns, names, shown, state.marks, options);
  const load = async () => {
    const span = options.span;
    try {
      const loaded = await request(paths.timeline(name, span));
      if (current() && span === options.span) setColumns(loaded);
    } catch (error) {
      announce(`The charts could not be loaded: ${error.message}`, "bad");
    }
  };
  const range = select("range", "Range", SPANS, (value) => {
    options.span = value;
    options.logX = value === "all";
    logX.checked = options.logX;
    axis.disabled = value === "all";
    load();
  });
  const axis = select("axis", "Horizontal axis", { time: "time", round: "rounds" }, (value) => { options.axis = value; panels.draw(); });
  const logX = h("input", { type: "checkbox", id: "log-x", onchange: () => { options.logX = logX.checked; panels.draw(); } });

  const words = help();
  fill(main,
    h("nav", { "aria-label": "Path" }, h("a", { href: links.overview() }, "Portfolios"), " / ", h("span", { "aria-current": "page" }, name)),
    h("h1", {}, name), sections.top, sections.tiles,
    h("p", {}, h("button", { type: "button", class: "small plain", onclick: () => explain(words) }, "What do these words mean?")),
    h("h2", {}, "Over time"),
    h("div", { class: "controls", role: "group", "aria-label": "Range and axes of all charts" },
      range.label, range, axis.label, axis, h("label", { class: "toggle" }, logX, "log scale of rounds"),
      h("span", { class: "quiet" }, "Drag in a chart to zoom, double-click to see all.")),
    panels.element,
    h("h2", {}, "What happened"), sections.marks,
    h("h2", {}, "Learners"), sections.learners,
    h("h2", {}, "Who is better than whom?"), sections.pairs,
    h("h2", {}, "Is anything stuck?"), sections.stuck,
    h("h2", {}, "Decisions"), finder(name), sections.decisions,
    words);

  const texts = new Map(); // what each section was made from, to leave it alone if nothing changed
  const section = (key, source, make) => {
    const text = JSON.stringify(source);
    if (texts.get(key) === text) return;
    texts.set(key, text);
    const focused = sections[key].contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent : null;
    const open = sections[key].querySelector("details")?.open;
    fill(sections[key], make());
    if (open) sections[key].querySelector("details").open = true;
    if (focused) [...sections[key].querySelectorAll("a, button, input")].find((each) => (each.getAttribute("aria-label") ?? each.textContent) === focused)?.focus();
  };
  const show = () => {
    panels.range = state.reward_range;
    section("top", [state.statements, state.recommendation, state.failure, state.blocking, state.failed_updates, state.overdue, state.learners], () => top(state));
    section("tiles", [state.rounds, state.per_second, state.reward, state.recent_reward, state.open, state.row.regret_upper], () => tiles(state));
    section("marks", state.marks, () => markList(state.marks, name));
    section("learners", [state.standing, shown], () => learners(name, state, isAdmin, shown, (next) => { shown = next; panels.shown = next; panels.draw(); show(); }));
    section("pairs", state.pairs, () => pairs(state.pairs, name));
    section("stuck", [state.counts, state.blocking_decisions, state.failed_update_rows, state.oldest_open], () => stuck(state, name));
  };
  show();
  setColumns(timeline);
  const loadDecisions = async () => {
    try {
      const { decisions } = await request(paths.decisions(name));
      if (current()) section("decisions", decisions, () => newest(decisions, name));
    } catch (error) {
      if (current()) fill(sections.decisions, h("p", { class: "quiet" }, `The newest decisions could not be loaded: ${error.message}`));
    }
  };
  setTimeout(loadDecisions, 0);
  const timer = setInterval(() => {
    if (document.hidden) return;
    if (options.span !== "15m") load();
    loadDecisions();
  }, REFRESH_MS);

  let gap = false;
  return {
    data({ view }) {
      if (view.time - state.time > 30) gap = true; // was away: what came meanwhile is loaded again
      state = view;
      show();
      const names = view.standing.map((row) => row.name);
      if (gap) { gap = false; load(); }
      else if (options.span === "15m") panels.append(view.row, names, view.marks);
    },
    close() {
      clearInterval(timer);
      panels.close();
    },
  };
}

function select(id, label, choices, change) {
  const element = h("select", { id, onchange: () => change(element.value) },
    Object.entries(choices).map(([value, text]) => h("option", { value }, text)));
  element.label = h("label", { for: id }, label);
  return element;
}

const mostPlayed = (standing) => standing.map((row, i) => [row.plays ?? 0, i]).sort((a, b) => b[0] - a[0] || a[1] - b[1])
  .slice(0, MAX_SHOWN).map(([, i]) => i).sort((a, b) => a - b);

function top(state) {
  return [
    h("div", { class: "health" }, health(state)),
    (state.statements ?? []).map((sentence, k) => h("p", { class: k ? null : "claim" }, sentence)),
    state.recommendation ? h("p", { class: "quiet" }, state.recommendation) : null,
    h("p", { class: "quiet" }, state.rule),
  ];
}

function tiles(state) {
  const rewards = progress(state);
  const upper = state.row.regret_upper.at(-1);
  const slow = state.row.slow_ms.at(-1);
  const tile = (title, value, note, kind) => h("div", { class: "tile" }, h("dt", {}, title), h("dd", {}, h("b", {}, value), h("span", { class: kind ?? "quiet" }, note)));
  const perRound = upper === null || !state.rounds ? NONE : number(upper / state.rounds, 3);
  return h("dl", { class: "tiles" },
    tile("Traffic", state.per_second ? `${short(state.per_second)} / s` : "none now", `${plural(state.rounds, "decision")} total`),
    tile("Mean reward now", rewards.now, rewards.text, rewards.kind),
    tile("The search has cost at most", upper === null ? "no bound" : short(upper), upper === null ? "the selector proves none" : `reward in total, ${perRound} per decision`),
    tile("Waiting for a reward", number(state.open), `${number(state.overdue)} overdue, ${number(state.blocking)} hold up many others`, state.overdue || state.blocking ? "warn" : null),
    tile("Failed updates", number(state.counts.failed_updates), "updates that a learner failed to make", state.counts.failed_updates ? "warn" : null),
    tile("Time to answer", milliseconds(state.row.median_ms.at(-1)), slow === null ? "no recent request" : `p99: ${milliseconds(slow)}`));
}

function learners(name, state, isAdmin, shown, choose) {
  const total = state.standing.reduce((sum, row) => sum + row.plays, 0) || 1;
  const many = state.standing.length > MAX_SHOWN;
  const head = ["learner", ...(many ? ["in charts"] : []), "state", "plays", "share", "mean reward", "of what counts", "do not count yet", "failures", "time to decide", ...(isAdmin ? ["change"] : [])];
  const rows = state.standing.map((row, i) => [
    [h("span", { class: `swatch ${shown.includes(i) ? `learner-${shown.indexOf(i) + 1}` : "rest"}` }), h("a", { href: links.learner(name, row.name) }, row.name)],
    ...(many ? [pick(row, i, shown, choose)] : []),
    badge(row.state), number(row.plays), percent(row.plays / total), number(row.reward), row.mean_reward === null ? NONE : `${number(row.mean_reward, 3)} ± ${number(row.mean_radius, 2)}`,
    number(row.pending), row.failures ? h("span", { title: row.last_error }, number(row.failures)) : "0", milliseconds(row.decide_ms),
    ...(isAdmin ? [changeButton(name, row) ?? NONE] : []),
  ]);
  return [
    table("Learners", head, rows, { left: [many ? 2 : 1] }),
    isAdmin ? null : h("p", { class: "quiet" }, "To suspend or resume a learner, sign in with a token that has the scope “admin”."),
  ];
}

function pick(row, i, shown, choose) {
  const box = h("input", { type: "checkbox", checked: shown.includes(i), "aria-label": `Show ${row.name} in the charts`, onchange: () => {
    if (box.checked && shown.length >= MAX_SHOWN) {
      box.checked = false;
      return announce(`At most ${MAX_SHOWN} learners fit into the charts: take one out first.`);
    }
    choose(box.checked ? [...shown, i].sort((a, b) => a - b) : shown.filter((each) => each !== i));
  } });
  return box;
}

const ORDER = { worse: 0, better: 1, open: 2 };
const MAX_OPEN_PAIRS = 5;

export function pairs(found, name, who = "which plays most") {
  if (!found || !found.rows?.length) return h("p", { class: "quiet" }, found?.reason || "Nothing can be said yet.");
  const rows = [...found.rows].sort((a, b) => ORDER[pairKind(a)] - ORDER[pairKind(b)] || b.lower - a.lower);
  const item = (row) => h("li", {}, h("a", { href: links.learner(name, row.name) }, row.name), ` ${pairSentence(row, found.leader)}.`);
  const [proved, open] = [rows.filter((row) => pairKind(row) !== "open"), rows.filter((row) => pairKind(row) === "open")];
  const rest = open.slice(MAX_OPEN_PAIRS);
  return [
    h("p", {}, "Against ", h("a", { href: links.learner(name, found.leader) }, found.leader), `, ${who}`,
      found.confidence ? `, with confidence ${found.confidence} for all statements together, at all times:` : ":"),
    h("ul", {}, proved.map(item), open.slice(0, MAX_OPEN_PAIRS).map(item)),
    rest.length ? h("details", {}, h("summary", {}, `${plural(rest.length, "more learner")} that cannot be told apart yet`), h("ul", {}, rest.map(item))) : null,
  ];
}

function stuck(state, name) {
  const { counts, blocking_decisions: blocking, failed_update_rows: failed, oldest_open: oldest } = state;
  const { deadline } = state;
  const line = (n, text) => (n ? h("li", {}, text) : null);
  return [
    h("p", {}, counts.open
      ? [`${plural(counts.open, "decision")} ${counts.open === 1 ? "waits" : "wait"} for a reward; the oldest, `, h("a", { href: links.decision(name, oldest.id) }, oldest.id), `, for ${age(oldest)}. `]
      : "No decision waits for a reward. ",
    deadline ? `After ${deadline.rounds ? plural(deadline.rounds, "later decision") : duration(deadline.seconds)} a decision gets the default reward ${number(state.default_reward)}.`
      : "There is no deadline: a decision whose reward never comes stays open."),
    h("ul", {},
      line(counts.overdue, `${plural(counts.overdue, "decision is", "decisions are")} past the deadline and will be closed next.`),
      line(counts.folded_differently, `${plural(counts.folded_differently, "logged decision has", "logged decisions have")} other probabilities than the selector's present rule gives; evidence rests on the logged ones.`),
      line(counts.expired, `${plural(counts.expired, "decision")} reached the deadline without a reward so far.`),
      line(counts.ignored, `${plural(counts.ignored, "reward")} came after the deadline and ${counts.ignored === 1 ? "was" : "were"} ignored.`),
      line(counts.clipped, `${plural(counts.clipped, "reward")} ${counts.clipped === 1 ? "was" : "were"} outside of the range and clipped.`),
      line(counts.fallbacks, `${plural(counts.fallbacks, "round")} got the fallback action, because no learner could play.`),
      line(counts.withdrawn, `${plural(counts.withdrawn, "decision")} ${counts.withdrawn === 1 ? "was" : "were"} withdrawn.`)),
    blocking.length ? [
      h("h3", {}, "Missing rewards that hold up others"),
      h("p", { class: "quiet" }, "Statements use the rewards of a learner in the order of its plays, so one that is missing holds up those after it."),
      table("Decisions whose missing reward holds up others", ["decision", "learner", "holds up", "of", "waits for"],
        blocking.map((row) => [h("a", { href: links.decision(name, row.id) }, row.id), row.learner, number(row.holds_up), row.what, age(row)])),
    ] : null,
    failed?.length ? [
      h("h3", {}, "Failed updates"),
      h("p", { class: "quiet" }, "Updates that a learner failed to make, the newest last. The rewards count all the same; only the learner did not learn from them."),
      table("Failed updates", ["learner", "round", "error"], failed.map((row) => [row.name, number(row.round), row.error]), { left: [2] }),
    ] : null,
  ];
}

function finder(name) {
  const id = h("input", { id: "decision-id", required: true, autocomplete: "off", spellcheck: "false" });
  return h("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); location.hash = links.decision(name, id.value.trim()); } },
    h("label", { for: "decision-id" }, "Find a decision by its id"), id, h("button", { type: "submit" }, "Show"));
}

function newest(decisions, name) {
  if (!decisions.length) return h("p", { class: "quiet" }, "No decision is in the journal. A service that was started with --memory keeps none, so none can be looked up.");
  return table("The newest decisions", DECISION_HEAD, decisionRows(decisions.slice(0, 10), name), { caption: true, left: [3, 4] });
}

function explain(words) {
  words.open = true;
  words.scrollIntoView();
  words.querySelector("summary").focus();
}

function help() {
  const entry = (term, text) => [h("dt", {}, term), h("dd", {}, text)];
  return h("details", { class: "help" }, h("summary", {}, "Words on this page"), h("dl", {},
    entry("Learner", "One way to decide, such as a model or a setting of it. Learners compete."),
    entry("Play", "A decision that went to this learner. Its share of plays is its share of the traffic."),
    entry("Mean reward", "What the decisions of the learner earned on average, over all rewards that arrived, defaults included."),
    entry("Of what counts, radius (±)", "Statements use the rewards of a learner in the order of its plays, up to the first that is missing; this is their mean. The best expected reward minus what the learner loses per play differs from it by at most the radius, with the stated confidence, at all times."),
    entry("Certified regret", "How much reward the whole search has lost, at most and at least, against always acting best. It is proved from the rewards, with the stated confidence; it is an upper limit, usually well above the actual loss."),
    entry("Eliminated", "The rewards of the learner contradict the bound that was claimed for it, so it gets no more traffic. The proof can be checked by anyone."),
    entry("Suspended, paused", "Suspended: by request, until it is resumed. Paused: it failed several times in a row, and is tried again by itself after a number of rounds."),
    entry("Do not count yet", "Plays whose reward is missing, or waits for that of an earlier play."),
    entry("Holds up others", "Good rewards may arrive sooner than bad ones, so to use those that are there and to leave out those that are missing would be biased. A deadline in the configuration closes decisions that get no reward."),
    entry("Failed update", "A round that a learner failed to learn from. The reward counts all the same."),
    entry("Drift alarm", "Recent rewards contradict earlier ones: the best learner may have changed.")));
}
