// Script of the page that explain_html writes. The page is complete without it; with it, a node of the
// drawing shows what it is connected to and its details on hover, focus and tap.
#pragma once

#include <string_view>

namespace etrace {

inline constexpr std::string_view kExplainScript = R"js(
const details = document.querySelector('.details');
for (const svg of document.querySelectorAll('.drawing')) {
  const nodes = [...svg.querySelectorAll('.node')], edges = [...svg.querySelectorAll('.edge')];
  const clear = () => {
    svg.classList.remove('tracing');
    for (const e of [...nodes, ...edges]) e.classList.remove('on');
  };
  const trace = node => {
    clear();
    const id = node.dataset.id, near = new Set([id]);
    for (const e of edges) {
      if (e.dataset.from !== id && e.dataset.to !== id) continue;
      e.classList.add('on');
      near.add(e.dataset.from).add(e.dataset.to);
    }
    for (const n of nodes) n.classList.toggle('on', near.has(n.dataset.id));
    svg.classList.add('tracing');
    details.textContent = node.querySelector('title').textContent;
  };
  for (const node of nodes) {
    node.addEventListener('mouseenter', () => trace(node));
    node.addEventListener('mouseleave', clear);
    node.addEventListener('focus', () => trace(node));
    node.addEventListener('blur', clear);
    // The first tap shows, the second follows the link.
    let shown = false;
    node.addEventListener('pointerdown', e => { shown = e.pointerType !== 'touch' || node.classList.contains('on'); });
    node.addEventListener('click', e => { if (!shown && e.detail) { e.preventDefault(); trace(node); } });
  }
}
)js";

}  // namespace etrace
