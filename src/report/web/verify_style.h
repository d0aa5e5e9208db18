// What the page of a VerifyReport adds to the style of explain's.
#pragma once

#include <string_view>

namespace etrace {

inline constexpr std::string_view kVerifyStyle = R"css(
.tag.exact { color: var(--direct); } .tag.approximate { color: var(--group); } .tag.none { color: var(--muted); }
.tag.broken { color: var(--error); } .tag.dead { color: var(--warning); }
.verdict { border-left: 4px solid var(--direct); padding: .6rem 1rem; background: var(--surface); border-radius: 0 8px 8px 0; max-width: 60rem; }
.verdict.broken { border-left-color: var(--error); }
.verdict ul { margin: .4rem 0 0; padding-left: 1.2rem; }
.num { font-variant-numeric: tabular-nums; white-space: nowrap; }
.reasons { margin: 0; padding-left: 1.6rem; max-width: 60rem; display: grid; gap: .5rem; }
.reasons li:target { background: var(--info-fill); }
.parameters { display: grid; gap: 1.2rem; }
.parameters article { background: var(--surface); border: 1px solid var(--line); border-radius: 12px; padding: 1.3rem 1.5rem; }
.parameters h3 { margin: 0; font: 600 1rem var(--mono); display: flex; flex-wrap: wrap; gap: .4rem .8rem; align-items: center; }
.parameters p { margin: .4rem 0 0; }
.plots { display: grid; grid-template-columns: 1fr 1fr; gap: 1.4rem; margin-top: 1rem; }
.plots figcaption { font-size: .88rem; color: var(--muted); margin-bottom: .3rem; }
.plot { display: block; width: 100%; max-width: 480px; height: auto; }
.plot text { fill: var(--muted); font: 11px var(--sans); }
.plot .grid { stroke: var(--line); stroke-width: 1; }
.plot .limit { stroke: var(--direct); stroke-width: 1.2; stroke-dasharray: 5 4; }
.plot text.limit { fill: var(--direct); stroke: none; }
.plot .line { fill: none; stroke-width: 1.6; }
.plot .bptt { stroke: var(--group); } .plot .online { stroke: var(--mixed); } .plot .deviation { stroke: var(--reads); }
.plot .point { stroke-width: 1.6; fill: var(--surface); }
.plot .point.bptt { fill: var(--group); } .plot .point.online { fill: var(--surface); }
.plot .point.met { stroke: var(--direct); fill: var(--direct); } .plot .point.measured { stroke: var(--group); fill: var(--group); }
.plot .point.broken { stroke: var(--error); fill: var(--error); } .plot .point.dead { stroke: var(--warning); }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .3rem 0 0; padding: 0; list-style: none; color: var(--muted); font-size: .84rem; }
.key svg { display: inline-block; width: 22px; height: 10px; vertical-align: middle; margin-right: .4rem; }
details .scroll { margin-top: .5rem; }
#overview thead th, #overview tbody th { white-space: normal; }
@media (max-width: 1000px) { .plots { grid-template-columns: 1fr; } }
@media (min-width: 701px) and (max-width: 1000px) { #overview th, #overview td { padding: .7rem .55rem; } #overview .tag { white-space: normal; } }
@media (max-width: 700px) { .parameters article { padding: 1rem; } }
@media print { .parameters article { break-inside: avoid; } }
)css";

}  // namespace etrace
