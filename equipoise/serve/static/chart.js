// A chart with its legend, a table for those who cannot see it, and downloads. It is drawn when it comes into sight.

import { fill, h } from "./dom.js";
import { csvCell, number, short, tick, time } from "./format.js";

const uPlot = window.uPlot;
const HEIGHT = 230;
const charts = new Set();
const probe = h("span", { hidden: true });

export function redrawAll() {
  colors.clear();
  for (const chart of charts) chart.rebuild();
}

// The value of a color of the theme, for a canvas.
const colors = new Map();
export function color(name, alpha = 1) {
  if (!colors.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    colors.set(name, getComputedStyle(probe).color);
  }
  const found = colors.get(name);
  return alpha === 1 ? found : found.replace(/^rgba?\(([^)]+)\)$/, (_, rgb) => `rgba(${rgb.split(",").slice(0, 3)}, ${alpha})`);
}

const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    target.chart.visible = isIntersecting;
    if (isIntersecting) target.chart.draw();
  }
}, { rootMargin: "100px" });
const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => target.chart.resize()));

// lines: [{ name, color, values, low, high, dash, fill }]; `stacked` adds them up.
export class Chart {
  constructor({ title, hint, unit, format = short, stacked = false, min, max, controls = [] }) {
    Object.assign(this, { title, unit, format, stacked, min, max, visible: false, dirty: true, data: null, log: false });
    this.place = h("div", { class: "plot", role: "img", "aria-label": `Chart: ${title}`, tabindex: "0", onkeydown: (event) => this.key(event) });
    this.place.chart = this;
    this.legend = h("ul", { class: "legend" });
    this.rows = h("div", {});
    this.details = h("details", { ontoggle: () => this.fillTable() }, h("summary", {}, "Show as table"), this.rows);
    const button = (label, what, action) =>
      h("button", { type: "button", class: "small plain", "aria-label": `Download “${title}” as ${what}`, onclick: action }, label);
    this.element = h("figure", { class: "chart" },
      h("figcaption", {},
        h("h3", {}, title, unit && h("span", { class: "quiet" }, ` ${unit}`)),
        h("span", { class: "grow" }),
        controls, button("PNG", "a picture", () => this.png()), button("CSV", "a table", () => this.csv())),
      hint && h("p", { class: "quiet hint" }, hint),
      this.place, this.legend, this.details);
    charts.add(this);
    seen.observe(this.place);
    resized.observe(this.place);
  }

  close() {
    charts.delete(this);
    seen.unobserve(this.place);
    resized.unobserve(this.place);
    this.plot?.destroy();
  }

  // data: { x, kind: "time" | "round", span, logX, lines, marks: [{ x, label }], note }
  set(data, { log = false } = {}) {
    const shape = (each) => JSON.stringify(each && [each.kind, each.span, each.logX, each.lines.map((line) => [line.name, line.color, !!line.low])]);
    const changed = shape(this.data) !== shape(data);
    if (changed || this.log !== log) this.stale = true;
    this.data = data;
    if (changed) this.fillTable(); // an open table shows its moment, but never another range than the chart
    this.log = log;
    this.dirty = true;
    if (this.visible) this.draw();
  }

  get isEmpty() {
    return !this.data || this.data.x.length < 2 || !this.data.lines.some((line) => line.values.some((value) => value !== null));
  }

  draw() {
    if (!this.dirty || !this.data) return;
    this.dirty = false;
    if (this.isEmpty) {
      this.plot?.destroy();
      this.plot = null;
      this.place.setAttribute("aria-label", `${this.title}: nothing to draw yet`);
      fill(this.place, h("p", { class: "quiet empty" }, this.data.note ?? "Nothing to draw yet: the chart begins with the next decisions and rewards."));
      fill(this.legend);
      return;
    }
    if (!this.plot || this.stale) this.create();
    else this.plot.setData(this.table());
    this.describe();
  }

  rebuild() {
    this.stale = true;
    this.dirty = true;
    if (this.visible) this.draw();
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  clean(values) {
    return this.log ? values.map((value) => (value > 0 ? value : null)) : values;
  }

  // The columns for uPlot: x, the lines, then ends of bands.
  table() {
    const { x, lines } = this.data;
    if (!this.stacked) {
      const ends = lines.filter((line) => line.low).flatMap((line) => [this.clean(line.high), this.clean(line.low)]);
      return [x, ...lines.map((line) => this.clean(line.values)), ...ends];
    }
    const sums = new Array(x.length).fill(0);
    return [x, ...lines.map((line) => line.values.map((value, k) => (value === null ? null : (sums[k] += value))))];
  }

  create() {
    this.plot?.destroy();
    fill(this.place);
    this.stale = false;
    const { lines, kind, logX } = this.data;
    const series = lines.map((line) => ({
      label: line.name,
      stroke: color(line.color),
      width: this.stacked ? 0.5 : 2,
      dash: line.dash,
      fill: this.stacked && line === lines[0] ? color(line.color, 0.85) : undefined,
      points: { show: false },
      spanGaps: true,
    }));
    const bands = [];
    if (this.stacked) {
      lines.slice(1).forEach((line, k) => bands.push({ series: [k + 2, k + 1], fill: color(line.color, 0.85) }));
    } else {
      for (const line of lines.filter((each) => each.low)) {
        bands.push({ series: [series.length + 1, series.length + 2], fill: color(line.color, 0.16) });
        for (const end of ["high", "low"]) series.push({ label: end, stroke: "transparent", width: 0, points: { show: false }, spanGaps: true });
      }
    }
    const axis = { stroke: color("quiet"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const filter = (isLog) => (_, splits) => (isLog ? decades(splits) : splits);
    this.plot = new uPlot({
      width: this.place.clientWidth || 320,
      height: HEIGHT,
      legend: { show: false },
      padding: [18, 26, 0, 0],
      cursor: { y: false, points: { show: !this.stacked }, drag: { x: true, y: false } },
      scales: {
        x: { time: kind === "time", distr: logX ? 3 : 1 },
        y: { distr: this.log ? 3 : 1, range: this.log ? undefined : (_, low, high) => this.range(low, high) },
      },
      axes: [
        { ...axis, filter: filter(logX), grid: { ...axis.grid, filter: filter(logX) }, space: 70, values: (_, values, __, ___, step) => values.map((value) => (value === null ? "" : kind === "time" ? tick(value, step) : short(value))) },
        { ...axis, filter: filter(this.log), grid: { ...axis.grid, filter: filter(this.log) }, size: 66, values: (_, values) => values.map((value) => (value === null ? "" : this.format(value))) },
      ],
      series: [{}, ...series],
      bands,
      hooks: { draw: [(plot) => this.drawMarks(plot)], setCursor: [(plot) => this.showValues(plot.cursor.idx)] },
    }, this.table(), this.place);
  }

  range(low, high) {
    if (low === null || high === null) return [0, 1];
    if (this.stacked) return [0, Math.max(high, 1e-9)];
    const bottom = this.min !== undefined ? Math.min(this.min, low) : low;
    const around = (high - bottom || Math.abs(high) || 1) * 0.06;
    return [this.min !== undefined && low >= this.min ? this.min : bottom - around, high + around];
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    let last = -Infinity;
    for (const mark of this.data.marks ?? []) {
      const x = plot.valToPos(mark.x, "x", true);
      if (!Number.isFinite(x) || x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
      ctx.strokeStyle = color(mark.color ?? "selector-1");
      ctx.fillStyle = color("ink");
      ctx.lineWidth = ratio;
      ctx.setLineDash([4 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (x - last > 14 * ratio) {
        ctx.fillText(mark.label, x, bbox.top - 5 * ratio);
        last = x;
      }
    }
    ctx.restore();
  }

  lastIndex() {
    for (let k = this.data.x.length - 1; k >= 0; k -= 1) {
      if (this.data.lines.some((line) => line.values[k] !== null && line.values[k] !== undefined)) return k;
    }
    return this.data.x.length - 1;
  }

  at(k) {
    return this.data.kind === "time" ? time(this.data.x[k]) : `round ${number(this.data.x[k])}`;
  }

  value(line, k) {
    const value = line.values[k];
    if (value === null || value === undefined) return "–";
    const around = line.high?.[k] ?? null;
    return around === null || line.radius === undefined ? this.format(value) : `${this.format(value)} ± ${short(line.radius[k])}`;
  }

  showValues(index) {
    if (!this.data || this.isEmpty) return;
    const k = index ?? this.lastIndex();
    if (this.items?.length !== this.data.lines.length) {
      this.items = this.data.lines.map((line) => ({ swatch: h("span", { class: "swatch" }), name: h("span", {}), value: h("b", {}) }));
      this.where = h("li", { class: "quiet" });
      fill(this.legend, this.items.map((item) => h("li", {}, item.swatch, item.name, " ", item.value)), this.where);
    }
    this.data.lines.forEach((line, i) => {
      const item = this.items[i];
      item.swatch.style.background = color(line.color);
      item.swatch.classList.toggle("dashed", !!line.dash);
      item.name.textContent = line.name;
      item.value.textContent = this.value(line, k);
    });
    this.where.textContent = `at ${this.at(k)}`;
  }

  describe() {
    this.showValues(this.plot?.cursor.idx);
    const k = this.lastIndex();
    const values = this.data.lines.slice(0, 8).map((line) => `${line.name} ${this.value(line, k)}`).join(", ");
    this.place.setAttribute("aria-label", `Chart: ${this.title}, up to ${this.at(k)}: ${values}. Arrow keys read earlier values.`);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !this.plot || !this.data) return;
    event.preventDefault();
    const last = this.data.x.length - 1;
    const k = Math.min(Math.max((this.plot.cursor.idx ?? last) + step, 0), last);
    this.plot.setCursor({ left: this.plot.valToPos(this.data.x[k], "x"), top: 10 });
    this.showValues(k);
  }

  head() {
    return [this.data.kind === "time" ? "time" : "round", ...this.data.lines.flatMap((line) => (line.radius ? [line.name, `${line.name} ±`] : [line.name]))];
  }

  cells(k, show) {
    return this.data.lines.flatMap((line) => (line.radius ? [show(line.values[k]), show(line.radius[k])] : [show(line.values[k])]));
  }

  fillTable() {
    if (!this.details.open || !this.data) return fill(this.rows);
    const { x } = this.data;
    const rows = x.map((_, k) => h("tr", {}, h("th", { scope: "row" }, this.at(k)), this.cells(k, (value) => this.format(value)).map((text) => h("td", {}, text)))).reverse();
    fill(this.rows, h("div", { class: "wide tall", tabindex: "0", role: "region", "aria-label": this.title },
      h("table", {}, h("caption", { class: "quiet" }, `${this.title} ${this.unit ?? ""}, as of ${time(Date.now() / 1000)}, the newest first`),
        h("thead", {}, h("tr", {}, this.head().map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows))));
  }

  csv() {
    if (!this.data) return;
    const stamp = (value) => (this.data.kind === "time" ? new Date(1000 * value).toISOString() : value);
    const lines = [this.head(), ...this.data.x.map((value, k) => [stamp(value), ...this.cells(k, (each) => each)])];
    save(new Blob([lines.map((row) => row.map(csvCell).join(",")).join("\r\n")], { type: "text/csv" }), `${this.fileName()}.csv`);
  }

  png() {
    if (!this.plot) return;
    const from = this.plot.ctx.canvas;
    const ratio = devicePixelRatio || 1;
    const canvas = h("canvas", { width: from.width, height: from.height + Math.ceil((48 + 18 * this.data.lines.length) * ratio) });
    const ctx = canvas.getContext("2d");
    ctx.fillStyle = color("paper");
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    ctx.fillStyle = color("ink");
    ctx.font = `bold ${14 * ratio}px system-ui, sans-serif`;
    ctx.fillText(`${this.title} ${this.unit ?? ""}`, 8 * ratio, 20 * ratio);
    ctx.drawImage(from, 0, 30 * ratio);
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    const k = this.lastIndex();
    this.data.lines.forEach((line, i) => {
      const y = from.height + (46 + 18 * i) * ratio;
      ctx.fillStyle = color(line.color);
      ctx.fillRect(8 * ratio, y - 9 * ratio, 12 * ratio, 10 * ratio);
      ctx.fillStyle = color("ink");
      ctx.fillText(`${line.name}: ${this.value(line, k)}`, 26 * ratio, y);
    });
    canvas.toBlob((blob) => save(blob, `${this.fileName()}.png`));
  }

  fileName() {
    return `equipoise ${this.title.toLowerCase()}`.replace(/[^a-z0-9]+/g, "-");
  }
}

// The powers of ten among the marks of an axis, if there are enough to read it by.
function decades(splits) {
  const found = splits.map((value) => (Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6 ? value : null));
  return found.filter((value) => value !== null).length < 2 ? splits : found;
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
