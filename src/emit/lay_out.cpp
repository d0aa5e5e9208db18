// The order of a value's axes in memory, where it is ours to choose. Short axes go to the front: what lies
// side by side then is what loops walk along, and the positions of a short axis are separate stretches.
#include <algorithm>

#include "emit/builder.h"
#include "emit/passes.h"

namespace etrace::emit {

namespace {

constexpr Index kShort = 4;

class LayOut {
 public:
  explicit LayOut(EmitProgram& p) : p_(p), ours_(p.values.size(), true) {
    for (std::size_t v = 0; v < p.values.size(); ++v) ours_[v] = p.values[v].home == Value::Unplaced;
    exclude(p.entry);
  }

  void run() {
    for (std::size_t v = 0; v < p_.values.size(); ++v)
      if (ours_[v]) value(static_cast<ValueId>(v));
  }

 private:
  // Products, kernels and predicates want their operands as they are.
  void exclude(const Block& b) {
    for (const Item& item : b) {
      if (const auto* region = std::get_if<Region>(&item.step)) {
        if (region->predicate != kNoValue) exclude_value(region->predicate);
        for (const Block& inner : region->blocks) exclude(inner);
      } else if (const auto* nest = std::get_if<Nest>(&item.step)) {
        for (const Stmt& s : nest->body)
          if (s.kind == Stmt::Load && !s.in.empty()) exclude_value(s.value);
      } else {
        const Uses u = uses(p_, item);
        for (const auto* list : {&u.reads, &u.writes})
          for (const ValueId v : *list) exclude_value(v);
      }
    }
  }
  void exclude_value(ValueId v) { ours_[static_cast<std::size_t>(root(p_, v))] = false; }

  void value(ValueId v) {
    const Dims sizes = p_.values[static_cast<std::size_t>(v)].aval.shape.to_dims();
    std::vector<std::size_t> order;
    for (const bool is_short : {true, false})
      for (std::size_t a = 0; a < sizes.size(); ++a)
        if ((sizes[a] > 1 && sizes[a] <= kShort) == is_short) order.push_back(a);
    if (std::is_sorted(order.begin(), order.end())) return;
    Dims permuted;
    for (const std::size_t a : order) permuted.push_back(sizes[a]);
    const Dims packed = row_major(permuted);
    Dims strides(sizes.size());
    for (std::size_t i = 0; i < order.size(); ++i) strides[order[i]] = packed[i];
    if (all_accesses(v, sizes, nullptr)) all_accesses(v, sizes, &strides);
  }

  // Takes every access apart; with strides, puts it together again. False if one cannot be.
  bool all_accesses(ValueId v, const Dims& sizes, const Dims* strides) {
    bool fits = true;
    const Builder builder(p_);
    for_each_nest(p_.entry, [&](Nest& n) {
      for (std::size_t k = 0; k < n.body.size() && fits; ++k) {
        if (n.body[k].value != v || (n.body[k].kind != Stmt::Load && n.body[k].kind != Stmt::Store)) continue;
        for (;;) {
          const Decoded d = decode(n.body[k].at, builder.extents(n), sizes);
          if (d.result == Decoded::Split) {
            split_axis(n, d.axis, d.inner);
            continue;
          }
          fits = d.result == Decoded::Done;
          if (fits && strides != nullptr)
            n.body[k].at = substitute({0, *strides, {}}, d.indices, n.axes.size());
          break;
        }
      }
    });
    return fits;
  }

  EmitProgram& p_;
  std::vector<bool> ours_;
};

}  // namespace

void lay_out(EmitProgram& p) { LayOut(p).run(); }

}  // namespace etrace::emit
