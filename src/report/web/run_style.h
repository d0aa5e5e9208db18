// What the page of a training run adds to the styles of explain's and verify's, and its script.
#pragma once

#include <string_view>

namespace etrace {

inline constexpr std::string_view kRunStyle = R"css(
.plot .bar { fill: var(--group); }
.plot .c0 { stroke: var(--group); } .plot .c1 { stroke: var(--mixed); } .plot .c2 { stroke: var(--direct); }
.plot .c3 { stroke: var(--error); } .plot .c4 { stroke: var(--reads); } .plot .c5 { stroke: var(--warning); }
.plot .other { stroke: var(--muted); opacity: .45; stroke-width: 1; }
.plot .raw { fill: none; opacity: .25; stroke-width: 1; }
.plot .band { stroke: none; opacity: .18; }
.plot .band.c0 { fill: var(--group); } .plot .band.c1 { fill: var(--mixed); } .plot .band.c2 { fill: var(--direct); }
.plot .band.c3 { fill: var(--error); } .plot .band.c4 { fill: var(--reads); } .plot .band.c5 { fill: var(--warning); }
.plot .cursor { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 2 3; fill: none; }
.plot .mark { stroke: var(--warning); stroke-width: 1; stroke-dasharray: 4 3; }
figure.curves { margin: 0; }
figure.curves figcaption { display: flex; justify-content: space-between; max-width: 480px; }
figure.curves figcaption label { display: flex; gap: .35rem; align-items: center; cursor: pointer; }
figure.curves figcaption label[hidden], .tools[hidden] { display: none; }
.key button { all: unset; color: inherit; }
.key button:enabled { cursor: pointer; }
.key button:focus-visible, .tools :focus-visible { outline: 2.5px solid var(--focus); outline-offset: 2px; border-radius: 4px; }
.key button[aria-pressed="false"] { text-decoration: line-through; opacity: .6; }
.key output { font-variant-numeric: tabular-nums; margin-left: .4rem; color: var(--ink); }
.tools { display: flex; flex-wrap: wrap; gap: .5rem 1.6rem; align-items: center; color: var(--muted); font-size: .88rem; }
.tools label { display: flex; gap: .5rem; align-items: center; }
.tools output { min-width: 6em; }
.tools input { accent-color: var(--group); width: 8rem; }
.tools select, .tools button { font: inherit; color: var(--ink); background: var(--surface); border: 1px solid var(--line);
  border-radius: 8px; padding: .25rem .7rem; }
.tools button { cursor: pointer; }
.live { margin-left: 1rem; padding: .1rem .6rem; border: 1px solid currentColor; border-radius: 99px; color: var(--direct);
  letter-spacing: 0; text-transform: none; }
.where { margin: 0 0 .4rem; color: var(--muted); }
.live:empty { display: none; }
.live.lost { color: var(--warning); }
.pictures { display: grid; gap: 1.2rem; }
.picture figcaption { font-size: .88rem; color: var(--muted); margin-bottom: .3rem; }
.picture div { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: .5rem; }
.picture img { display: block; width: 100%; image-rendering: pixelated; background: var(--surface); border: 1px solid var(--line); }
.spreads { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(15rem, 46%), 1fr)); gap: 1.2rem 1.6rem; }
.spreads figcaption { font-size: .8rem; color: var(--muted); line-height: 1.4; }
.plot .spread { fill: none; stroke: var(--group); stroke-width: 1.4; }
.plot .spread.after { fill: var(--group-fill); }
.plot .spread.before { stroke: var(--reads); stroke-dasharray: 3 3; }
@media (min-width: 701px) and (max-width: 1000px) { th, td { padding: .7rem .5rem; } thead th, .num { white-space: normal; } }
@media print { .tools, .live, figure.curves figcaption label { display: none; } figure { break-inside: avoid; } }
)css";

// Draws the curves anew as the tools above them say, shows values under the pointer, hands out CSV; and of a
// run that goes on, takes what its server tells.
inline constexpr std::string_view kRunScript = R"js(
const W = 480, H = 240, L = 52, R = 10, T = 10, B = 34, MOST = 2000, AVERAGES = [1, 5, 10, 20, 50, 100, 200, 500];
const all = selector => [...document.querySelectorAll(selector)], one = selector => document.querySelector(selector);
const short = number => String(+number.toPrecision(number < 1000 ? 2 : 4));

// A point is [x, value, seconds, batches that it is the mean of]; the last is left out where it is 1.
function averaged(points, over) {
  let mean;
  return points.map(([x, y, s, n = 1]) => {
    const keep = mean === undefined ? 0 : (1 - 1 / over) ** n;
    mean = keep ? keep * mean + (1 - keep) * y : y;
    return [x, mean, s, n];
  });
}
function halved(points) {
  const out = [];
  for (let i = 0; i + 1 < points.length; i += 2) {
    const [, a, , m = 1] = points[i], [x, b, s, n = 1] = points[i + 1];
    out.push([x, (m * a + n * b) / (m + n), s, m + n]);
  }
  return points.length % 2 ? [...out, points.at(-1)] : out;
}

const escaped = text => text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);

function draw(figure) {
  const plot = figure.plot, log = figure.querySelector(".log input").checked;
  const smooth = one(".tools [name=smooth]"), along = +(one(".tools [name=along]")?.value ?? 0);
  const over = smooth ? AVERAGES[smooth.value] : 1;
  const shown = plot.curves.map(c => c.hidden ? [] : c.smooth ? averaged(c.points, over) : c.points);
  const fits = y => Number.isFinite(y) && (!log || y > 0), scale = y => log ? Math.log10(y) : y;
  const values = shown.flatMap((points, i) =>
    [...points.map(p => p[1]), ...(plot.curves[i].hidden ? [] : plot.curves[i].band ?? []).flat()]).filter(fits).map(scale);
  let low = values.reduce((a, b) => Math.min(a, b), log ? Infinity : 0);
  let high = values.reduce((a, b) => Math.max(a, b), log ? -Infinity : 1);
  if (!(low < high)) { low = Number.isFinite(low) ? low - .5 : 0; high = low + 1; }
  const last = shown.flat().reduce((a, p) => Math.max(a, p[along]), along ? .01 : 1);
  const px = x => L + (W - L - R) * x / last, py = y => T + (H - T - B) * (high - scale(y)) / (high - low);
  const path = places => places.filter(p => fits(p[1])).map((p, i) => `${i ? "L" : "M"}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join("");
  const places = points => points.map(p => [p[along], p[1]]);
  let html = "", lines = "";
  const grid = [0, 1, 2, 3, 4].map(k => low + (high - low) * k / 4).map(at => log ? 10 ** at : at);
  let digits = 2, labels;
  do labels = grid.map(value => String(+value.toPrecision(digits)));
  while (digits++ < 6 && labels.some((label, k) => label === labels[k + 1]));
  labels.forEach((label, k) => {
    const y = T + (H - T - B) * (1 - k / 4);
    html += `<path class="grid" d="M${L} ${y}H${W - R}"/><text x="${L - 6}" y="${y + 4}" text-anchor="end">${label}</text>`;
  });
  for (const [part, anchor] of [[0, "start"], [.5, "middle"], [1, "end"]])
    html += `<text x="${px(part * last)}" y="${H - 16}" text-anchor="${anchor}">${along ? short(part * last) : Math.round(part * last)}</text>`;
  html += `<text x="${W - R}" y="${H - 3}" text-anchor="end">${along ? "seconds" : escaped(plot.x)}</text>`;
  if (!along) for (const x of plot.marks) html += `<path class="mark" d="M${px(x)} ${T}V${H - B}"/>`;
  let colour = 0;
  plot.curves.forEach((c, i) => {
    const kind = c.other ? "other" : `c${colour++ % 6}`;
    if (c.hidden) return;
    if (c.band) {
      const edge = side => c.points.map((p, k) => [p[along], c.band[k][side]]);
      html += `<path class="band ${kind}" d="${path([...edge(1), ...edge(0).reverse()])}Z"/>`;
    }
    if (c.smooth && over > 1) html += `<path class="raw ${kind}" d="${path(places(c.points).map(([x, y]) => [x, log ? Math.min(Math.max(y, 10 ** low), 10 ** high) : Math.min(Math.max(y, low), high)]))}"/>`;
    const line = `<path class="line ${kind}" d="${path(places(shown[i]))}"/>`;
    if (c.other) html += line; else lines += line;
  });
  figure.querySelector("svg g").innerHTML = html + lines;
  figure.view = {shown, along, last};
}
const draw_all = () => all("figure.curves").forEach(draw);

function show_values(event) {
  const svg = event.target.closest && event.target.closest("figure.curves > svg");
  if (!svg) return;
  const figure = svg.parentElement, {shown, along, last} = figure.view, box = svg.getBoundingClientRect();
  const x = Math.min(W - R, Math.max(L, (event.clientX - box.left) * W / box.width)), at = (x - L) / (W - L - R) * last;
  svg.querySelector(".cursor").setAttribute("d", `M${x} ${T}V${H - B}`);
  figure.querySelectorAll("output").forEach((out, i) => {
    const p = shown[i].findLast(p => p[along] <= at);
    out.textContent = p ? `${+p[1].toPrecision(4)} at ${p[along]}` : "";
  });
}

function csv() {
  const quoted = text => `"${text.replaceAll('"', '""')}"`, rows = ["plot,curve,x,value,seconds,batches"];
  for (const {plot} of all("figure.curves"))
    for (const c of plot.curves)
      for (const [x, y, s, n = 1] of c.points) rows.push(`${quoted(plot.title)},${quoted(c.name)},${x},${y},${s},${n}`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([rows.join("\n") + "\n"], {type: "text/csv"}));
  link.download = `${one("h1").textContent}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function set_up() {
  const tools = one(".tools");
  if (!tools) return;
  tools.hidden = false;
  const told = () => {
    const smooth = tools.elements.smooth;
    if (smooth) smooth.nextElementSibling.textContent = smooth.value > 0 ? `${AVERAGES[smooth.value]} batches` : "one batch";
    draw_all();
  };
  tools.addEventListener("input", told);
  tools.addEventListener("submit", event => event.preventDefault());
  tools.elements.csv.addEventListener("click", csv);
  for (const figure of all("figure.curves")) {
    figure.plot = JSON.parse(figure.querySelector("script").textContent);
    figure.querySelector(".log").hidden = false;
    figure.querySelector(".log input").addEventListener("input", () => draw(figure));
    figure.querySelectorAll(".key button").forEach((button, i) => {
      button.disabled = false;
      button.addEventListener("click", () => {
        const hidden = figure.plot.curves[i].hidden = !figure.plot.curves[i].hidden;
        button.setAttribute("aria-pressed", !hidden);
        draw(figure);
      });
    });
  }
  told();
}

function listen() {
  const source = new EventSource(document.body.dataset.events), state = one(".live");
  let waiting = false;
  const take = (event, whole) => {
    const news = JSON.parse(event.data);
    if (news.page) {
      source.close();
      const end = new DOMParser().parseFromString(news.page, "text/html");
      document.title = end.title;
      document.body.replaceWith(end.body);
      set_up();
      one(".live").textContent = "ended";
      return;
    }
    one(".lead").textContent = news.lead;
    one(".tiles").replaceChildren(...news.tiles.map(([what, number]) => {
      const tile = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = what;
      dd.textContent = number;
      tile.append(dt, dd);
      return tile;
    }));
    const figures = all("figure.curves");
    news.marks.forEach((marks, i) => { figures[i].plot.marks = whole ? marks : [...figures[i].plot.marks, ...marks]; });
    news.plots.forEach((curves, i) => curves.forEach((points, k) => {
      const curve = figures[i].plot.curves[k];
      curve.points = whole ? points : [...curve.points, ...points];
      while (curve.points.length > MOST) curve.points = halved(curve.points);
    }));
    if (!waiting) requestAnimationFrame(() => { waiting = false; draw_all(); });
    waiting = true;
  };
  source.addEventListener("all", event => take(event, true));
  source.addEventListener("news", event => take(event, false));
  const say = (text, lost) => { state.textContent = text; state.classList.toggle("lost", lost); };
  source.onopen = () => say("live", false);
  source.onerror = () => say("the program does not answer; trying again", true);
}

document.addEventListener("pointermove", show_values);
set_up();
if (document.body.dataset.events) listen();
)js";

}  // namespace etrace
