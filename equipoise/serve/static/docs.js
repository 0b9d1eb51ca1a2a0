// The routes of the service, as /openapi.json describes them.

import { Refusal, request, setToken } from "./api.js";
import { fill, h } from "./dom.js";

const MAX_DEPTH = 3; // of schemas within schemas
const main = document.getElementById("content");
const named = (schema, all) => (schema?.$ref ? all[schema.$ref.split("/").pop()] : schema) ?? {};

// A text in which names stand between backticks.
const prose = (text) => text.split("`").map((part, k) => (k % 2 ? h("code", {}, part) : part));

function typeOf(schema, all) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf || schema.oneOf) {
    const kinds = (schema.anyOf ?? schema.oneOf).map((each) => typeOf(each, all)).filter((kind) => kind !== "null");
    return [...new Set(kinds)].join(" or ");
  }
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" or ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.type === "array") {
    const entries = schema.items ? typeOf(schema.items, all) : "anything";
    return `list of ${entries.includes(" ") ? `(${entries})` : entries}`;
  }
  return schema.type ?? "anything";
}

const RULES = {
  minLength: "at least # characters", maxLength: "at most # characters", minimum: "at least #", maximum: "at most #",
  minItems: "at least # entries", maxItems: "at most # entries", maxProperties: "at most # names", pattern: "pattern #",
};

function rulesOf(schema) {
  const parts = [schema, ...(schema.anyOf ?? [])].filter((part) => part.type !== "null");
  return parts.flatMap((part) => Object.entries(RULES)
    .filter(([key]) => key in part).map(([key, text]) => text.replace("#", () => String(part[key])))).join(", ");
}

function fields(schema, all, depth = 0) {
  const about = named(schema, all);
  if (about.anyOf) return about.anyOf.filter((each) => each.$ref).map((each) => [
    h("h4", {}, typeOf(each, all)), fields(each, all, depth)]);
  if (!about.properties) return h("p", {}, h("code", {}, typeOf(schema ?? {}, all)));
  const required = new Set(about.required ?? []);
  return [
    about.description && h("p", {}, prose(about.description)),
    h("dl", { class: "fields" }, Object.entries(about.properties).map(([name, each]) => [
      h("dt", {}, name),
      h("dd", {}, [typeOf(each, all), rulesOf(each), required.has(name) ? "required" : null].filter(Boolean).join("; "),
        depth < MAX_DEPTH ? inner(each, all, depth + 1) : null),
    ])),
  ];
}

// The fields of an object that a field has, or of the objects in its list.
function inner(schema, all, depth) {
  const parts = [schema, schema.items, ...(schema.anyOf ?? []).flatMap((each) => [each, each.items])];
  const found = parts.find((part) => part?.$ref);
  return found && h("details", {}, h("summary", {}, typeOf(found, all)), fields(found, all, depth));
}

function body(content, all) {
  return Object.entries(content ?? {}).map(([type, about]) => [
    h("p", { class: "quiet" }, type.includes("ndjson") ? `${type}: one object in each line` : type),
    about.schema && !type.includes("ndjson") && fields(about.schema, all),
    about["x-example"] && h("pre", { tabindex: "0" }, about["x-example"]),
    Object.values(about.examples ?? {}).map((example) => [
      h("p", { class: "quiet" }, example.summary),
      h("pre", { tabindex: "0" }, JSON.stringify(example.value, null, 2)),
    ]),
  ]);
}

function operation(path, method, about, all) {
  const scope = about.security?.[0]?.token?.[0];
  const responses = Object.entries(about.responses).map(([status, response]) => [
    h("dt", {}, status), h("dd", {}, response.description)]);
  const success = Object.values(about.responses)[0];
  return h("details", { class: "operation", id: about.operationId },
    h("summary", {}, h("span", { class: `method ${method}` }, method.toUpperCase()), h("code", {}, path),
      h("span", { class: "quiet" }, about.summary)),
    h("div", {},
      h("p", { class: "quiet" }, scope ? `Needs the scope ${scope}.` : "Needs no token."),
      about.requestBody && [h("h3", {}, "Request"), body(about.requestBody.content, all)],
      h("h3", {}, "Answer"), body(success.content, all),
      success.links && h("p", {}, "Continue with: ", Object.keys(success.links).map((id, k) => [
        k ? ", " : "", h("a", { href: `#${id}` }, id)]), "."),
      h("h3", {}, "Statuses"), h("dl", { class: "fields" }, responses)));
}

function render(description) {
  const all = description.components.schemas, groups = new Map();
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const group = about.tags?.[0] ?? "Other";
      groups.set(group, [...(groups.get(group) ?? []), { path, method, about }]);
    }
  }
  const entry = ({ method, about }) => h("li", {}, h("a", { href: `#${about.operationId}` },
    h("span", { class: `method ${method}` }, method.toUpperCase()), " ", about.operationId));
  fill(main,
    h("h1", {}, "Routes"),
    h("p", {}, `${description.info.summary}. Version ${description.info.version}.`),
    h("form", { class: "controls", onsubmit: signIn },
      h("label", { for: "token" }, "Token"),
      h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false" }),
      h("button", { type: "submit", class: "plain" }, "Show my portfolios as examples")),
    h("div", { class: "routes" },
      h("nav", { "aria-label": "Routes" }, [...groups].map(([name, some]) => [
        h("h2", {}, name), h("ul", {}, some.map(entry))])),
      h("div", {}, [...groups].map(([name, some]) => h("section", {},
        h("h2", {}, name), some.map(({ path, method, about }) => operation(path, method, about, all)))))));
  show();
}

function signIn(event) {
  event.preventDefault();
  setToken(document.getElementById("token").value.trim() || null);
  load();
}

function show() {
  const wanted = location.hash && document.getElementById(location.hash.slice(1));
  if (wanted?.classList.contains("operation")) {
    wanted.open = true;
    wanted.scrollIntoView();
  }
}

async function load() {
  try {
    render(await request("/openapi.json"));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    fill(main, h("h1", {}, "Routes"), h("p", { class: "bad", role: "alert" }, error.message));
  }
}

addEventListener("hashchange", show);
load();
