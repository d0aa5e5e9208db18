// Programs inside equations: the bodies of loops and branches.
#pragma once

#include "etrace/ir.h"

namespace etrace {

template <class F>  // ClosedJaxpr -> ClosedJaxpr
Attr with_bodies(const Attr& attr, const F& f) {
  if (const JaxprPtr* body = attr.jaxpr()) return share(f(**body));
  if (attr.list_items() == nullptr) return attr;
  Attr::List items = *attr.list_items();
  for (Attr& item : items) item = with_bodies(item, f);
  return Attr::list(std::move(items));
}

// Every body becomes f of it.
template <class F>
void map_bodies(Eqn& eqn, const F& f) {
  if (nested_jaxprs(eqn).empty()) return;
  Attr::Dict items = eqn.params.items();
  for (auto& item : items) item.second = with_bodies(item.second, f);
  eqn.params = Params(std::move(items));
}

}  // namespace etrace
