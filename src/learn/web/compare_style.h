// What the page of a RuleComparison adds to the style of explain's.
#pragma once

#include <string_view>

namespace etrace {

inline constexpr std::string_view kCompareStyle = R"css(
.num { font-variant-numeric: tabular-nums; white-space: nowrap; }
.tag.exact { color: var(--direct); }
#frontier figure { margin: 0; background: var(--surface); border: 1px solid var(--line); border-radius: 12px; padding: 1rem; }
.frontier { display: block; width: 100%; max-width: 1000px; height: auto; }
.frontier text { fill: var(--muted); font: 11.5px var(--sans); }
.frontier .number { fill: var(--surface); font-weight: 600; pointer-events: none; }
ol.best { margin: .8rem 0 0; padding-left: 1.8rem; columns: 2 22rem; column-gap: 2.5rem; font-size: .92rem; }
.frontier .grid { stroke: var(--line); stroke-width: 1; fill: none; }
.frontier .edge { stroke: var(--direct); stroke-width: 1.8; fill: none; }
.frontier .point { fill: var(--surface); stroke: var(--group); stroke-width: 1.6; }
.frontier .point.best { fill: var(--direct); stroke: var(--direct); }
#rules tr.best th { font-weight: 700; }
#rules thead th, #rules tbody th { white-space: normal; overflow-wrap: normal; }
#rules .sub { display: block; font-size: .8rem; white-space: normal; overflow-wrap: anywhere; }
.refused { margin: 0; padding-left: 1.2rem; max-width: 60rem; display: grid; gap: .5rem; }
@media (min-width: 701px) and (max-width: 1000px) { #rules th, #rules td { padding: .7rem .45rem; } #rules .tag { white-space: normal; } }
)css";

}  // namespace etrace
