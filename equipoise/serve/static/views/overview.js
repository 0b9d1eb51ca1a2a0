// All portfolios at a glance.

import { paths, request } from "../api.js";
import { fill, h } from "../dom.js";
import { links, NONE, number, plural, short } from "../format.js";
import { health, progress, stateWord } from "../parts.js";

export async function overviewView({ main }) {
  const place = h("div", { class: "cards" });
  const show = ({ portfolios }) => {
    if (!portfolios.length) {
      return fill(place, h("p", { class: "claim" }, "No portfolio is served here, or your token covers none."),
        h("p", {}, "A portfolio is a file such as ", h("code", {}, "offers.toml"), "; ", h("code", {}, "equipoise serve offers.toml"), " serves it."));
    }
    fill(place, portfolios.map(card));
  };
  const first = await request(paths.overview);
  fill(main,
    h("h1", {}, "Portfolios"),
    h("p", { class: "quiet" }, "Each portfolio lets several learners compete for the same decisions and moves traffic to the one that earns most."),
    place);
  show(first);
  let last = JSON.stringify(first.portfolios);
  return {
    data(data) {
      const text = JSON.stringify(data.portfolios);
      if (text === last) return;
      last = text;
      const focused = document.activeElement?.closest?.("#content a")?.getAttribute("href");
      show(data);
      if (focused) [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    },
  };
}

function card(row) {
  const link = h("h2", {}, h("a", { href: links.portfolio(row.name) }, row.name));
  if (row.rounds === null) return h("article", { class: "card" }, link, health(row));
  const rewards = progress(row);
  const states = Object.entries(row.learners).map(([state, n]) => `${number(n)} ${stateWord(state)}`).join(", ");
  return h("article", { class: "card" },
    link,
    h("div", { class: "health" }, health(row)),
    h("dl", { class: "facts" },
      fact("Traffic", row.per_second ? `${short(row.per_second)} / s` : "none now", `${plural(row.rounds, "decision")} total`),
      fact("Mean reward now", rewards.now, rewards.text, rewards.kind),
      fact("Learners", number(Object.values(row.learners).reduce((a, b) => a + b, 0)), states),
      fact("Waiting for a reward", number(row.open), row.open ? "open decisions" : NONE)));
}

const fact = (name, value, note, kind) => h("div", {}, h("dt", {}, name), h("dd", {}, h("b", {}, value), h("span", { class: kind ?? "quiet" }, note)));
