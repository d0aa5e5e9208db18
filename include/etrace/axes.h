// How axes of results come from axes of operands: one table per equation, the one place that knows whether
// samples, positions or units stay apart. Most rows say it by their `emit` or their `lower`; the slot `axes`
// is for the others.
//
// Start with AxisSource, then axes_of.
#pragma once

#include <cstdint>
#include <vector>

#include "etrace/emission.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

// What elements of a result at index j of one of its axes depend on, of one operand.
struct AxisSource {
  enum Kind : std::uint8_t {
    Nothing,  // of the operand
    Along,    // elements at index j of its axis `axis` only
    Same,     // elements that do not change with j, possibly all
    Any       // that is not known: any elements
  };
  Kind kind = Any;
  std::size_t axis = 0;
  friend bool operator==(const AxisSource&, const AxisSource&) = default;
  // Of what depends on both.
  AxisSource& operator|=(const AxisSource&);
};

struct AxisTable {
  // Nothing is known.
  AxisTable(std::span<const Aval> in, std::span<const Aval> out);
  explicit AxisTable(const EmitRequest& q) : AxisTable(q.in, q.out) {}
  // Every axis of a result comes from the same axis of every operand; those of size 1 are repeated, scalars
  // everywhere.
  static AxisTable aligned(const EmitRequest&);

  AxisSource& at(std::size_t axis, std::size_t operand, std::size_t result = 0) {
    return from[result][axis][operand];
  }
  const AxisSource& at(std::size_t axis, std::size_t operand, std::size_t result = 0) const {
    return from[result][axis][operand];
  }
  void keep(std::size_t axis, std::size_t operand, std::size_t operand_axis, std::size_t result = 0) {
    at(axis, operand, result) = {AxisSource::Along, operand_axis};
  }
  // Along this axis of the results nothing is known.
  AxisTable& mix(std::size_t axis);

  std::vector<std::vector<std::vector<AxisSource>>> from;  // by result, its axis, operand
};

// By the row's `axes`, else what follows from `elementwise`, `bodies`, `emit` or `lower`, else not known.
AxisTable axes_of(const Primitive&, const EmitRequest&);
AxisTable axes_of(const Eqn&);

}  // namespace etrace
#pragma GCC visibility pop
