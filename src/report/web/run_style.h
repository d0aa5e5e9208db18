// What the page of a training run adds to the styles of explain's and verify's, and its script.
#pragma once

#include <string_view>

namespace etrace {

inline constexpr std::string_view kRunStyle = R"css(
.plot .bar { fill: var(--group); }
.plot .c0 { stroke: var(--group); } .plot .c1 { stroke: var(--mixed); } .plot .c2 { stroke: var(--direct); }
.plot .c3 { stroke: var(--error); } .plot .c4 { stroke: var(--reads); } .plot .c5 { stroke: var(--warning); }
.plot .other { stroke: var(--muted); opacity: .45; stroke-width: 1; }
.plot .band { stroke: none; opacity: .18; }
.plot .band.c0 { fill: var(--group); } .plot .band.c1 { fill: var(--mixed); } .plot .band.c2 { fill: var(--direct); }
.plot .band.c3 { fill: var(--error); } .plot .band.c4 { fill: var(--reads); } .plot .band.c5 { fill: var(--warning); }
.plot .cursor { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 2 3; fill: none; }
figure.curves { margin: 0; }
.key output { font-variant-numeric: tabular-nums; margin-left: .4rem; color: var(--ink); }
)css";

// Values under the pointer: the last point at or before it, of every curve.
inline constexpr std::string_view kRunScript = R"js(
document.addEventListener("pointermove", event => {
  const svg = event.target.closest && event.target.closest("figure.curves > svg");
  if (!svg) return;
  const figure = svg.parentElement, d = figure.dataset, box = svg.getBoundingClientRect();
  const left = +d.left, right = +d.right, view = svg.viewBox.baseVal;
  const x = Math.min(right, Math.max(left, (event.clientX - box.left) * view.width / box.width));
  const at = (x - left) / (right - left) * +d.last;
  svg.querySelector(".cursor").setAttribute("d", `M${x} 10V${view.height - 34}`);
  figure.values ||= JSON.parse(d.values);
  figure.querySelectorAll("output").forEach((out, i) => {
    const before = figure.values[i].filter(p => p[0] <= at);
    out.textContent = before.length ? `${before[before.length - 1][1]} at ${before[before.length - 1][0]}` : "";
  });
});
)js";

}  // namespace etrace
