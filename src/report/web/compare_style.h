// What the page of a RuleComparison adds to the style of explain's.
#pragma once

#include <string_view>

namespace etrace {

inline constexpr std::string_view kCompareStyle = R"css(
.num { font-variant-numeric: tabular-nums; white-space: nowrap; }
.tag.exact { color: var(--direct); }
#frontier figure { margin: 0; background: var(--surface); border: 1px solid var(--line); border-radius: 12px; padding: 1rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1rem; }
.frontier { display: block; width: 100%; max-width: 34rem; height: auto; }
.frontier text { fill: var(--muted); font: 12px var(--sans); }
.frontier .title { fill: var(--ink); font-weight: 600; }
.frontier .number { fill: var(--ink); font-weight: 600; pointer-events: none; }
.frontier .leader { stroke: var(--muted); stroke-width: .8; fill: none; }
.frontier .edge { stroke: var(--direct); stroke-width: 1.4; fill: none; opacity: .6; }
.frontier .target { stroke: var(--direct); stroke-width: 1.6; fill: none; }
ol.best { margin: .8rem 0 0; padding-left: 1.8rem; display: grid; gap: .25rem; font-size: .92rem; }
ol.best summary { cursor: pointer; }
.parameters { width: auto; border-collapse: collapse; margin: .3rem 0 .6rem; font-variant-numeric: tabular-nums; font-size: .85rem; }
.parameters th, .parameters td { padding: .1rem .9rem .1rem 0; text-align: left; overflow-wrap: anywhere; }
.frontier .grid { stroke: var(--line); stroke-width: 1; fill: none; }
.frontier .point { fill: var(--surface); stroke: var(--group); stroke-width: 1.6; }
.frontier .point.best { fill: var(--direct); stroke: var(--direct); }
#rules tr.best th { font-weight: 700; }
#rules thead th, #rules tbody th { white-space: normal; overflow-wrap: normal; }
#rules .sub { display: block; font-size: .8rem; white-space: normal; overflow-wrap: anywhere; }
.refused { margin: 0; padding-left: 1.2rem; max-width: 60rem; display: grid; gap: .5rem; }
@media (min-width: 701px) and (max-width: 1000px) { #rules th, #rules td { padding: .7rem .45rem; } #rules .tag { white-space: normal; } }
)css";

}  // namespace etrace
