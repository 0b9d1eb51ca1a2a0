// Elements, made without HTML: whatever a name contains, it is text.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

// Sets a text only if it changed, so that screen readers do not repeat themselves.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function table(caption, head, rows, options = {}) {
  const cell = (value, k) =>
    k === 0 ? h("th", { scope: "row" }, value) : h("td", { class: options.left?.includes(k) ? "left" : null }, value);
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: options.class },
      h("caption", { class: options.caption ? "quiet" : "hidden" }, caption),
      h("thead", {}, h("tr", {}, head.map((name, k) =>
        h("th", { scope: "col", class: options.left?.includes(k) ? "left" : null }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

export function announce(text, kind = "note") {
  let place = document.getElementById("toast");
  if (!place) document.body.append(place = h("div", { id: "toast", role: "status" }));
  fill(place, h("p", { class: kind }, text));
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => fill(place), 8000);
}

export function confirm(question, explanation, action) {
  return new Promise((resolve) => {
    const answer = (value) => { dialog.close(); dialog.remove(); resolve(value); };
    const dialog = h("dialog", { "aria-labelledby": "question" },
      h("h2", { id: "question" }, question),
      h("p", {}, explanation),
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "plain", onclick: () => answer(false) }, "Cancel"),
        h("button", { type: "button", onclick: () => answer(true) }, action)));
    dialog.addEventListener("cancel", (event) => { event.preventDefault(); answer(false); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
