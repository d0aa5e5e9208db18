// What a step reads and writes, and which equation stands for it.
#include <algorithm>

#include "emit/program.h"

namespace etrace::emit {

namespace {

void collect(const EmitProgram& p, const Item& item, Uses& u) {
  const auto read = [&](ValueId v) { u.reads.push_back(root(p, v)); };
  const auto write = [&](ValueId v) { u.writes.push_back(root(p, v)); };
  if (const auto* nest = std::get_if<Nest>(&item.step)) {
    for (const Stmt& s : nest->body) {
      if (s.kind == Stmt::Load) read(s.value);
      if (writes(s)) write(s.value);
    }
  } else if (const auto* product = std::get_if<Product>(&item.step)) {
    read(product->a.value);
    read(product->b.value);
    if (product->onto) read(product->c.value);
    write(product->c.value);
  } else if (const auto* call = std::get_if<Call>(&item.step)) {
    for (const ValueId v : call->in) read(v);
    for (const ValueId v : call->out) write(v);
  } else {
    const auto& region = std::get<Region>(item.step);
    if (region.predicate != kNoValue) read(region.predicate);
    for (const Block& b : region.blocks)
      for (const Item& i : b) collect(p, i, u);
  }
}

}  // namespace

int eqn_of(const Item& item, ValueId v) {
  const auto* nest = std::get_if<Nest>(&item.step);
  if (nest == nullptr)
    return std::visit(
        [](const auto& s) {
          if constexpr (requires { s.eqn; }) return s.eqn;
          return -1;
        },
        item.step);
  int first = -1;
  for (const Stmt& s : nest->body) {
    if (s.value == v && v != kNoValue && s.eqn >= 0) return s.eqn;
    if (first < 0) first = s.eqn;
  }
  return first;
}

Uses uses(const EmitProgram& p, const Item& item) {
  Uses u;
  collect(p, item, u);
  for (std::vector<ValueId>* list : {&u.reads, &u.writes}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return u;
}

}  // namespace etrace::emit
