// Memory for programs, and which of their values asks for too much.
#include "interp/arena.h"

#include <fmt/format.h>

#include "etrace/primitive.h"

namespace etrace {

namespace {

struct LargestValue {
  const Eqn* eqn = nullptr;
  Aval aval = {};

  void look_at(const Jaxpr& jaxpr) {
    for (const Eqn& e : jaxpr.eqns) {
      for (const Var& v : e.out)
        if (eqn == nullptr || v.aval.bytes() > aval.bytes()) {
          eqn = &e;
          aval = v.aval;
        }
      for (const auto& [key, value] : e.params.items()) look_at(value);
    }
  }

 private:
  void look_at(const Attr& value) {
    if (const JaxprPtr* body = value.get_if<JaxprPtr>()) look_at((*body)->jaxpr);
    if (const Attr::List* list = value.list_items())
      for (const Attr& item : *list) look_at(item);
  }
};

}  // namespace

AlignedBuffer arena_for(const Jaxpr& jaxpr, std::size_t bytes) {
  if (std::byte* block = allocate_block(bytes)) return {bytes, block};
  LargestValue largest;
  largest.look_at(jaxpr);
  if (largest.eqn == nullptr) out_of_memory("a program", bytes);
  out_of_memory(fmt::format("a program, its largest value {} from {},", to_string(largest.aval),
                            largest.eqn->prim->name()),
                bytes, largest.eqn->origin);
}

}  // namespace etrace
