// Style of the page that explain_html writes. Colours are variables: one set for light, one for dark, one for
// paper.
#pragma once

#include <string_view>

namespace etrace {

inline constexpr std::string_view kExplainStyle = R"css(
:root {
  color-scheme: light dark;
  --bg: #f6f6f2; --surface: #ffffff; --sunken: #f0f1ec; --ink: #1b2430; --muted: #56606e; --line: #dcdfd8;
  --weight: #6b4fbb; --op: #334155; --op-fill: #eef1f5; --group: #1d4fb8; --group-fill: #edf3fd;
  --direct: #0b7268; --mixed: #a8500a; --through: #b8193f; --reads: #8a94a3;
  --info: #1d4fb8; --warning: #97480a; --error: #b3163b;
  --info-fill: #e9f0fd; --warning-fill: #fdf1e2; --error-fill: #fdebef; --etp-fill: #e6f4f1; --focus: #1d4fb8;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
  --sans: system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --bg: #11151a; --surface: #191f27; --sunken: #141920; --ink: #e5e9ef; --muted: #a0abba; --line: #2e3742;
    --weight: #b7a3f5; --op: #c3ccd8; --op-fill: #222a34; --group: #86aefc; --group-fill: #1a2537;
    --direct: #3fcfbb; --mixed: #f3b04f; --through: #fb7f98; --reads: #6c7888;
    --info: #86aefc; --warning: #f3b04f; --error: #fb7f98;
    --info-fill: #1a2537; --warning-fill: #2d2415; --error-fill: #331b22; --etp-fill: #15302d; --focus: #86aefc;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1.5rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 16px/1.6 var(--sans); overflow-wrap: anywhere; }
header, main, footer { max-width: 76rem; margin: 0 auto; padding: 0 2rem; }
header { padding-top: 3.5rem; }
.kicker { margin: 0; color: var(--muted); font-size: .8rem; letter-spacing: .09em; text-transform: uppercase; }
h1 { margin: .2rem 0 .6rem; font-size: 2.1rem; line-height: 1.2; letter-spacing: -.015em; font-weight: 650; }
h2 { margin: 0 0 .35rem; font-size: 1.28rem; line-height: 1.3; letter-spacing: -.005em; font-weight: 620; }
.lead { margin: 0 0 .4rem; font-size: 1.1rem; max-width: 60rem; }
.note { margin: 0 0 1.2rem; color: var(--muted); max-width: 46rem; }
pre.model { font: .85rem/1.55 var(--mono); color: var(--muted); white-space: pre-wrap; margin: .8rem 0 0; }
section { margin: 3.2rem 0; }
a { color: var(--group); text-decoration-thickness: 1px; text-underline-offset: 2px; }
a:focus-visible, summary:focus-visible, input:focus-visible, [tabindex]:focus-visible {
  outline: 2.5px solid var(--focus); outline-offset: 2px; border-radius: 4px;
}
code, .mono { font-family: var(--mono); font-size: .875em; }
nav { margin: 1.6rem 0 0; padding: .7rem 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
nav ul { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; font-size: .92rem; }
nav a { color: var(--ink); text-decoration: none; display: inline-block; padding: .15rem 0; }
nav a:hover { text-decoration: underline; }

.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1px; margin: 1.8rem 0 0;
  background: var(--surface); border: 1px solid var(--line); border-radius: 12px; overflow: hidden; }
.tiles div { outline: 1px solid var(--line); padding: 1rem 1.2rem; display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.tiles dt { color: var(--muted); font-size: .84rem; line-height: 1.35; }
.tiles dd { margin: 0; font-size: 1.6rem; font-weight: 600; white-space: nowrap; font-variant-numeric: tabular-nums; line-height: 1.25; }
.tiles .warning dd { color: var(--warning); }
.tiles .error dd { color: var(--error); }

.card { background: var(--surface); border: 1px solid var(--line); border-radius: 12px; padding: 1.5rem; }
figure { margin: 0; }
.markers { position: absolute; width: 0; height: 0; }
.drawing { display: block; width: 100%; max-width: calc(var(--w) * 1px); height: auto; margin: 0 auto; overflow: visible; }
.drawing.narrow { display: none; }
figure:has(#size-whole:checked) .drawing { width: 100%; max-width: none; height: min(76vh, calc(var(--h) * 1px)); }
.drawing text { fill: var(--ink); font: 12.5px var(--mono); }
.drawing .t1 { font-weight: 600; }
.drawing .t2, .drawing .why { fill: var(--muted); font-size: 11.5px; }
.drawing .caption { font: 600 13px var(--sans); fill: var(--muted); }
.drawing .divider { stroke: var(--line); stroke-width: 1; }
.drawing .box { fill: var(--surface); stroke: var(--line); stroke-width: 1.25; }
.drawing .weight .bar { fill: var(--weight); }
.drawing .operator .box { fill: var(--op-fill); }
.drawing .group .box { fill: var(--group-fill); stroke: var(--group); stroke-opacity: .55; }
.drawing .group .t1 { fill: var(--group); }
.drawing .group circle { fill: var(--group); }
.drawing .apart .box { stroke-dasharray: 4 4; fill: none; stroke: var(--reads); }
.drawing .apart .t1 { fill: var(--muted); }
.drawing .node { cursor: pointer; text-decoration: none; outline: none; }
.drawing .node:hover .box, .drawing .node:focus-visible .box, .drawing .node.on .box { stroke: var(--focus); stroke-opacity: 1; stroke-width: 2; }
.edge { fill: none; stroke-width: 1.75; stroke: var(--reads); }
.edge.weight { stroke: var(--weight); stroke-opacity: .55; }
.edge.direct { stroke: var(--direct); }
.edge.mixed { stroke: var(--mixed); stroke-dasharray: 7 4; }
.edge.through { stroke: var(--through); stroke-dasharray: 2 4; stroke-linecap: round; }
.edge.reads { stroke-width: 1.1; stroke-dasharray: 3 4; }
.edge.recurrence { stroke: var(--group); stroke-opacity: .7; }
.arrow path { fill: var(--reads); }
.arrow.weight path { fill: var(--weight); }
.arrow.direct path { fill: var(--direct); }
.arrow.mixed path { fill: var(--mixed); }
.arrow.through path { fill: var(--through); }
.arrow.recurrence path { fill: var(--group); }
.drawing .node, .drawing .edge { transition: opacity .15s; }
.drawing.tracing .node:not(.on), .drawing.tracing .edge:not(.on) { opacity: .18; }
.drawing.tracing .edge.on { stroke-width: 2.6; stroke-opacity: 1; }
.legend { display: flex; flex-wrap: wrap; gap: .4rem 1.6rem; margin: 1.4rem 0 0; padding: 1rem 0 0; border-top: 1px solid var(--line);
  list-style: none; color: var(--muted); font-size: .86rem; }
.legend li { display: flex; align-items: center; gap: .5rem; }
.legend svg { width: 34px; height: 10px; flex: none; }
.details { position: sticky; bottom: .8rem; z-index: 1; min-height: 5.2rem; max-height: 40vh; overflow-y: auto; margin-top: 1rem;
  padding: .8rem 1rem; background: var(--sunken); border: 1px solid var(--line); border-radius: 8px;
  box-shadow: 0 2px 10px rgb(0 0 0 / .12); white-space: pre-line; font-size: .88rem; color: var(--muted); }
.details:not(:empty) { color: var(--ink); }
.details:empty::before { content: attr(data-hint); color: var(--muted); }

.scroll { border: 1px solid var(--line); border-radius: 12px; background: var(--surface); overflow: hidden; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .85rem 1.1rem; border-top: 1px solid var(--line); }
thead th { border-top: 0; background: var(--sunken); color: var(--muted); font-size: .8rem; font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 600; white-space: nowrap; }
td > div + div, th > div + div { margin-top: .3rem; }
.sub { color: var(--muted); font-weight: 400; font-size: .9em; }
tr:target, li:target, article:target { background: var(--info-fill); }
.tag { display: inline-block; padding: .08rem .5rem; border-radius: 99px; font-size: .78rem; font-weight: 600; line-height: 1.5; white-space: nowrap;
  border: 1px solid currentColor; }
.tag.direct { color: var(--direct); } .tag.mixed { color: var(--mixed); } .tag.through { color: var(--through); }
.tag.info { color: var(--info); } .tag.warning { color: var(--warning); } .tag.error { color: var(--error); }
.tag.quiet { color: var(--muted); font-weight: 500; }
details { margin-top: .5rem; }
summary { cursor: pointer; color: var(--muted); font-size: .86rem; width: fit-content; padding: .1rem .2rem; }
summary:hover { color: var(--ink); }
details pre { margin: .5rem 0 0; padding: .8rem 1rem; background: var(--sunken); border-radius: 8px; font: .78rem/1.6 var(--mono);
  white-space: pre-wrap; }

.apart-list { display: grid; gap: .9rem; }
.apart-list article { background: var(--surface); border: 1px dashed var(--reads); border-radius: 12px; padding: 1.1rem 1.3rem; }
.apart-list h3 { margin: 0 0 .3rem; font: 600 .95rem var(--mono); }
.apart-list p { margin: .3rem 0 0; }
.todo { padding-left: .9rem; border-left: 3px solid var(--direct); }

.bars { display: grid; gap: 1.4rem; }
.bars .name { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; margin-bottom: .35rem; }
.bar-row { display: grid; grid-template-columns: 11rem 1fr minmax(12rem, auto); gap: .8rem; align-items: center; font-size: .86rem; margin: .2rem 0; }
#recurrence .card { margin-bottom: 1rem; }
.bar-row .rule { color: var(--muted); }
.bar-row .track { height: .72rem; background: var(--sunken); border-radius: 99px; overflow: hidden; }
.bar-row .fill { display: block; height: 100%; min-width: 3px; border-radius: 99px; background: var(--group); print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.bar-row .fill.c1 { background: var(--direct); }
.bar-row .fill.c2 { background: var(--weight); }
.bar-row .fill.c3 { background: var(--op); }
.bar-row .value { text-align: right; font-variant-numeric: tabular-nums; }
.total { margin-top: 1.4rem; padding-top: 1.2rem; border-top: 1px solid var(--line); }

.filter { border: 0; margin: 0 0 1rem; padding: 0; display: flex; flex-wrap: wrap; gap: .5rem; }
.filter legend { float: left; margin-right: .6rem; padding: .3rem 0; color: var(--muted); font-size: .88rem; }
.filter label { display: inline-flex; gap: .45rem; align-items: center; padding: .32rem .85rem; border: 1px solid var(--line); border-radius: 99px;
  background: var(--surface); font-size: .88rem; cursor: pointer; }
.filter input { margin: 0; accent-color: var(--group); }
.records { list-style: none; margin: 0; padding: 0; display: grid; gap: .7rem; }
.records li { background: var(--surface); border: 1px solid var(--line); border-left: 4px solid var(--info); border-radius: 10px; padding: .9rem 1.1rem; }
.records li.warning { border-left-color: var(--warning); } .records li.error { border-left-color: var(--error); }
.records p { margin: .35rem 0 0; }
.records .sub code { color: var(--ink); }
#diagnostics:has(#show-info:not(:checked)) li.info, #diagnostics:has(#show-warning:not(:checked)) li.warning,
#diagnostics:has(#show-error:not(:checked)) li.error { display: none; }

.program { margin: 0; padding: 1.1rem 0; list-style: none; font: .82rem/1.65 var(--mono); }
.program li { display: grid; grid-template-columns: 3.4rem 1fr auto; gap: 0 .9rem; padding: .12rem 1.2rem; border-left: 3px solid transparent; }
.program .no { color: var(--muted); text-align: right; user-select: none; }
.program .text { white-space: pre-wrap; padding-left: 1.5rem; text-indent: -1.5rem; }
.program .prim { font-weight: 600; }
.program .type { color: var(--muted); }
.program .etp { background: var(--etp-fill); border-left-color: var(--direct); }
.program .etp .prim { color: var(--direct); }
.program .etp.out { background: var(--warning-fill); border-left-color: var(--mixed); }
.program .etp.out .prim { color: var(--mixed); }
.program .links { font: .78rem/1.9 var(--sans); text-align: right; }
.program .links a + a, .program .links span + a { margin-left: .6rem; }
.program .plain .text { color: var(--muted); }
footer { padding-bottom: 3rem; color: var(--muted); font-size: .85rem; }

@media (max-width: 1000px) {
  .drawing.wide { display: none; }
  .drawing.narrow { display: block; max-width: 430px; }
  .legend .reads, .legend .recurrence { display: none; }
}
@media (max-width: 700px) {
  header, main, footer { padding: 0 1rem; }
  header { padding-top: 2rem; }
  h1 { font-size: 1.6rem; }
  section { margin: 2.4rem 0; }
  .tiles { grid-template-columns: 1fr 1fr; }
  .tiles div:last-child:nth-child(odd) { grid-column: 1 / -1; }
  .card { padding: 1rem; }
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  table, tbody, tr, th, td { display: block; }
  tbody tr { padding: .9rem 1rem; border-top: 1px solid var(--line); }
  tbody tr:first-child { border-top: 0; }
  tbody th, tbody td { padding: .2rem 0; border: 0; }
  tbody td { display: grid; grid-template-columns: 6.2rem 1fr; gap: .6rem; }
  tbody td::before { content: attr(data-label); color: var(--muted); font-size: .84rem; padding-top: .1rem; }
  tbody td > * { grid-column: 2; min-width: 0; }
  .bar-row { grid-template-columns: 8rem 1fr; gap: 0 .8rem; }
  .bar-row .value { grid-column: 2; }
  .program li { grid-template-columns: 2rem 1fr; padding: .2rem .8rem; }
  .program .links { grid-column: 2; text-align: left; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } * { transition: none !important; } }
@media print {
  :root { color-scheme: light; --bg: #fff; --surface: #fff; --sunken: #f4f4f2; --ink: #000; --muted: #444; --line: #ccc; }
  body { font-size: 10.5pt; }
  header, main, footer { max-width: none; padding: 0; }
  header { padding-top: 0; }
  nav, .details, .filter { display: none; }
  section { margin: 1.6rem 0; }
  .drawing.wide { display: block; } .drawing.narrow { display: none; }
  figure:has(#size-whole:checked) .drawing { height: auto; max-width: calc(var(--w) * 1px); }
  .legend .reads, .legend .recurrence { display: flex; }
  .card, tr, .records li, .apart-list article, .bars > div { break-inside: avoid; }
  h2 { break-after: avoid; }
  a { color: inherit; text-decoration: none; }
}
)css";

}  // namespace etrace
