// What is known of the values of arrays before any step runs: their sign, whether they are finite, whole, or
// zero in places. A row says it of its result in the slot `facts`; elements that are moved or added need no
// slot. What nobody says is not known.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "etrace/emission.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

// Of all elements, NaN aside. Unsigned: not negative, and no -0 among them.
enum class Sign : std::uint8_t { Any, NotNegative, NotPositive, Unsigned };
Sign opposite(Sign);
Sign product(Sign, Sign);

// UnlessOverflow: sums and products of finite numbers.
enum class Finite : std::uint8_t { Unknown, UnlessOverflow, Always };

// Which operands are finite if all elements of the result are. Part: of those the elements that come out.
enum class Shows : std::uint8_t { None, First, Part, All };

struct Facts {
  Sign sign = Sign::Any;
  Finite finite = Finite::Unknown;
  bool whole = false;    // whole numbers
  bool zeros = false;    // some elements are zero, whatever the data are
  bool alike = false;    // entries repeat along an axis
  bool decided = false;  // a comparison or choice that falls on one side whatever the data are, but for zeros
  Shows shows = Shows::None;  // of the operation; no property of the values
  bool is_not_negative() const { return sign == Sign::NotNegative || sign == Sign::Unsigned; }
  // Of elements of both.
  Facts& operator&=(const Facts&);
  friend bool operator==(const Facts&, const Facts&) = default;
};

struct FactRequest {
  const Params& params;
  std::span<const Aval> in, out;
  std::span<const Facts> known;  // per operand
  bool same;                     // the first two operands are one value
  const Facts& x(std::size_t i) const { return known[i]; }

  // For rows
  // --------------------------------------------------------------------------------------------------
  // Elements of operands from `first` on, and of no others.
  Facts moved(Shows, std::size_t first = 0) const;
  // A sum or product of elements of all operands: finite unless it overflows, whole if they are.
  Facts combined(Sign) const;
  bool any_zeros() const;
  bool all_zeros() const;
};

Facts facts_of(const Literal&);
Facts facts_of(const Tensor&);
// Of a result, given what is known of the operands.
Facts facts_of(const Eqn&, std::span<const Facts> known, std::size_t result = 0);

// Of every value of a program; loops are followed until nothing changes.
class KnownFacts {
 public:
  // Nothing is known of inputs but what is given.
  explicit KnownFacts(const Jaxpr&, std::span<const Tensor> constants = {},
                      std::span<const std::pair<Var, Facts>> given = {});
  ~KnownFacts();
  Facts of(const Atom&) const;

 private:
  struct Flow;
  std::unique_ptr<Flow> flow_;
};

}  // namespace etrace
#pragma GCC visibility pop
