#include "control/bodies.h"

namespace etrace {

namespace {

using Change = std::function<ClosedJaxpr(const ClosedJaxpr&)>;

Attr changed(const Attr& attr, const Change& change) {
  if (const JaxprPtr* program = attr.jaxpr())
    return *program != nullptr ? Attr(share(change(**program))) : attr;
  if (const Attr::List* items = attr.list_items()) {
    Attr::List out;
    for (const Attr& item : *items) out.push_back(changed(item, change));
    return Attr::list(std::move(out));
  }
  return attr;
}

}  // namespace

Eqn with_bodies(Eqn eqn, const Change& change) {
  Attr::Dict items;
  for (const auto& [key, value] : eqn.params.items()) items.emplace_back(key, changed(value, change));
  eqn.params = Params(std::move(items));
  return eqn;
}

}  // namespace etrace
