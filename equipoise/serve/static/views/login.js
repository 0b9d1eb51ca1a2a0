// Signing in with a token.

import { fill, h } from "../dom.js";

export function loginView(main, message, signIn) {
  const secret = h("input", { id: "token", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const problem = h("p", { class: "bad", role: "alert" }, message);
  const button = h("button", { type: "submit" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    try {
      await signIn(secret.value.trim());
    } catch (error) {
      problem.textContent = error.status === 401 ? "The service does not know this token."
        : error.status === 403 ? "This token may not read: it needs the scope “read”." : error.message;
      secret.select();
    } finally {
      button.disabled = false;
    }
  };
  fill(main,
    h("h1", {}, "Sign in"),
    h("p", {}, "This service is protected by tokens. A token with the scope “read” shows everything; with “admin” it can suspend and resume learners too."),
    h("form", { class: "login", onsubmit: submit },
      h("label", { for: "token" }, "Token"), secret, button, problem),
    h("p", { class: "quiet" }, "The token stays in the memory of this tab only. Whoever runs the service makes one with ",
      h("code", {}, "equipoise token add NAME --scope read"), "."));
  secret.focus();
}
