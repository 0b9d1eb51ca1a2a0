// Numbers, times and addresses as text. What is unknown is a dash.

export const NONE = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

const exponential = (value, digits) => value.toExponential(digits).replace(/\.?0*e\+?/, "e");

export function number(value, digits = 4) {
  if (typeof value !== "number" || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return whole.format(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return exponential(value, 2);
  if (size >= 1000) return whole.format(value);
  return String(Number(value.toPrecision(digits)));
}

export function short(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return exponential(value, 1);
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= unit) return `${Number((value / (name === "k" ? 1e3 : unit)).toPrecision(3))}${name}`;
  }
  return number(value, 3);
}

export const percent = (share, digits = 1) => (Number.isFinite(share) ? `${(100 * share).toFixed(digits)}\u00a0%` : NONE);
export const milliseconds = (value) => (!Number.isFinite(value) ? NONE : value >= 1000 ? `${number(value / 1000, 3)} s` : `${number(value, 3)} ms`);

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export function time(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  const date = new Date(1000 * seconds);
  if (Number.isNaN(date.getTime())) return NONE;
  const today = new Date().toDateString() === date.toDateString();
  return today ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

// A time on an axis whose marks are so many seconds apart.
export function tick(seconds, step) {
  const date = new Date(1000 * seconds);
  return (step >= 86400 ? day : step >= 60 ? minute : clock).format(date);
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * unit) return `${Math.round(seconds / unit)} ${name}`;
  }
  return `${Math.round(seconds)} s`;
}

export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

const part = encodeURIComponent;
export const links = {
  overview: () => "#/",
  portfolio: (name) => `#/p/${part(name)}`,
  learner: (name, learner) => `#/p/${part(name)}/learner/${part(learner)}`,
  decision: (name, id) => `#/p/${part(name)}/decision/${part(id)}`,
};

// A cell of CSV; what a spreadsheet would take for a formula gets an apostrophe.
export function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
