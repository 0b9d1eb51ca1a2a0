// The page: which view the address means, who is signed in, whether it is live, light or dark.

import { hasToken, paths, Refusal, request, setToken } from "./api.js";
import { fill, h, say } from "./dom.js";
import { redrawAll } from "./chart.js";
import { links } from "./format.js";
import { Live } from "./live.js";
import { decisionView } from "./views/decision.js";
import { learnerView } from "./views/learner.js";
import { loginView } from "./views/login.js";
import { overviewView } from "./views/overview.js";
import { portfolioView } from "./views/portfolio.js";

const main = document.getElementById("content");
const connection = document.getElementById("connection");
const MARKS = { live: "●", connecting: "○", lost: "▲" };
let view = null; // the open one: { data(data), close() }
let live = null;
let session = null; // what the token allows
let opened = 0; // counts views, so that a late answer for an old one is dropped

function route() {
  const [kind, name, sub, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  if (kind !== "p" || !name) return { make: overviewView, path: paths.watchOverview, title: "Portfolios" };
  const path = paths.watch(name);
  if (sub === "learner") return { make: learnerView, path, name, item: rest.join("/"), title: rest.join("/") };
  if (sub === "decision") return { make: decisionView, path, name, item: rest.join("/"), title: `Decision ${rest.join("/")}` };
  return { make: portfolioView, path, name, title: name };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function close() {
  live?.close();
  view?.close?.();
  live = view = null;
}

async function open() {
  close();
  const turn = ++opened;
  const target = route();
  document.title = `${target.title} · equipoise`;
  fill(main, h("p", { class: "quiet", "aria-busy": "true" }, "Loading…"));
  if (document.documentElement.dataset.tokens === "yes" && !hasToken()) return signIn("");
  try {
    session ??= await request(paths.overview);
    if (turn !== opened) return;
    showSession();
    view = await target.make({ main, name: target.name, item: target.item, session, current: () => turn === opened });
  } catch (error) {
    if (turn !== opened || error.name === "AbortError") return;
    if (!(error instanceof Refusal)) throw error;
    return fail(error, target, turn);
  }
  if (turn !== opened) return;
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  live = new Live(target.path, (data) => view?.data?.(data), (status, text) => onStatus(status, text, target));
}

function fail(error, target, turn) {
  if (error.status === 401) return signIn(hasToken() ? "The token is not valid, or not any more." : "");
  close();
  const missing = error.status === 404 || error.status === 403;
  document.body.classList.remove("stale");
  connection.className = "connection lost";
  say(connection, missing ? "▲ Not found" : "▲ No connection");
  fill(main,
    h("h1", {}, missing ? "Not found" : "No answer"),
    h("p", { class: "claim" }, missing && target.name && !target.item
      ? `There is no portfolio “${target.name}” here, or your token does not cover it.` : error.message),
    h("p", {}, missing ? "It may have been removed, or the service was started without it. The page looks again every few seconds."
      : "The page tries again every few seconds: nothing needs to be done here."),
    h("p", {}, h("a", { href: links.overview() }, "All portfolios"), " ",
      h("button", { type: "button", class: "plain", onclick: open }, "Try now")));
  setTimeout(() => { if (turn === opened) open(); }, 3000);
}

function showStatus(status, text) {
  if (status === "expired") return signIn("The token is not valid any more. Sign in again to continue.");
  const ended = status === "lost";
  connection.className = `connection ${status}`;
  say(connection, status === "connecting" && document.body.classList.contains("stale")
    ? "○ Connecting again…" : `${MARKS[status]} ${ended ? `${text} What you see may be old.` : text}`);
  document.body.classList.toggle("stale", ended || (status === "connecting" && document.body.classList.contains("stale")));
}

function onStatus(status, text, target) {
  if (status === "refused") fail(new Refusal(404, text), target, opened);
  else showStatus(status, text);
}

function signIn(message) {
  close();
  opened += 1;
  session = null;
  setToken(null);
  showSession();
  connection.className = "connection";
  say(connection, "");
  document.body.classList.remove("stale");
  loginView(main, message, async (secret) => {
    setToken(secret);
    try {
      session = await request(paths.overview);
    } catch (error) {
      setToken(null);
      throw error;
    }
    open();
  });
}

function showSession() {
  const signedIn = session !== null && hasToken();
  document.getElementById("sign-out").hidden = !signedIn;
  say(document.getElementById("session"), signedIn ? `${session.token} (${session.scopes.join(", ")})` : "");
}

function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  redrawAll();
}

const choice = document.getElementById("theme");
choice.value = sessionStorage.getItem("theme") ?? "auto";
applyTheme(choice.value);
choice.addEventListener("change", () => {
  sessionStorage.setItem("theme", choice.value);
  applyTheme(choice.value);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
document.getElementById("sign-out").addEventListener("click", () => signIn("You have signed out."));
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", open);
open();
