// The program: flat, typed, single assignment. Immutable once built; passes return new programs.
//
//   { lambda c:f32[] ; x:f32[3] w:f32[3,4]. let      constvars ; invars
//       y:f32[4] = dot_general[...] x w              equations
//     in (y,) }                                      outs
//
// Start with Jaxpr, then Eqn, then Attr. The primitives themselves are in etrace/primitive.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "etrace/aval.h"
#include "etrace/error.h"
#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace {

class Primitive;
struct ClosedJaxpr;
using JaxprPtr = std::shared_ptr<const ClosedJaxpr>;

// A value. Two Vars are the same iff their ids are; ids are never printed and never ordered on in output.
struct Var {
  std::uint64_t id = 0;
  Aval aval;
  friend bool operator==(const Var& a, const Var& b) { return a.id == b.id; }
};
Var fresh_var(const Aval&);

// A scalar constant written into the equation. It is no Var: analyses skip it.
struct Literal {
  Dtype dtype = Dtype::F32;
  Scalar value;
  Aval aval() const { return {dtype, {}}; }
};
bool operator==(const Literal&, const Literal&);  // NaN equals NaN, 0.0 differs from -0.0

using Atom = std::variant<Var, Literal>;
Aval aval_of(const Atom&);
inline const Var* as_var(const Atom& a) { return std::get_if<Var>(&a); }

// A static parameter: plain data as in a file, or a nested program. Cheap to copy.
using Table = std::vector<std::int32_t>;  // a long list of integers: the indices of a sparse pattern

class Attr {
 public:
  using List = std::vector<Attr>;
  using Dict = std::vector<std::pair<std::string, Attr>>;  // sorted by key
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                             std::shared_ptr<const Dims>, std::shared_ptr<const List>,
                             std::shared_ptr<const Dict>, JaxprPtr, std::shared_ptr<const Table>>;

  // All in attr.cpp: a variant of ten in every file that includes this costs more than a call.
  Attr();  // null
  Attr(std::nullptr_t);
  Attr(bool);
  Attr(int);
  Attr(std::int64_t);
  Attr(std::size_t);
  Attr(double);
  Attr(const char*);
  Attr(std::string);
  Attr(Dtype);
  Attr(const Shape&);
  // Integers have one representation: a table if there are more than kShortList and 32 bits hold them all,
  // else Dims.
  static constexpr std::size_t kShortList = 64;
  Attr(Dims);
  Attr(std::shared_ptr<const Table>);
  Attr(JaxprPtr);  // no program is null
  Attr(const Attr&);
  Attr(Attr&&) noexcept;
  Attr& operator=(const Attr&);
  Attr& operator=(Attr&&) noexcept;
  ~Attr();
  static Attr list(List v);  // a list of integers becomes Dims or a table
  static Attr dict(Dict v);  // sorts by key

  const Value& value() const { return value_; }
  bool is_null() const;
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  const Dims* ints() const;  // null for a table
  const std::shared_ptr<const Table>* table() const;
  const List* list_items() const;
  const Dict* dict_items() const;
  const JaxprPtr* jaxpr() const;

 private:
  Value value_;
};
bool operator==(const Attr&, const Attr&);  // nested programs compare up to renaming

// The static parameters of an equation, sorted by name. Getters throw CompilationError naming the parameter.
class Params {
 public:
  Params();
  Params(const Params&);
  Params(Params&&) noexcept;
  Params& operator=(const Params&);
  Params& operator=(Params&&) noexcept;
  ~Params();
  Params(std::initializer_list<std::pair<std::string, Attr>> items);
  explicit Params(Attr::Dict items);

  const Attr* find(std::string_view key) const;  // null if absent
  bool has(std::string_view key) const;          // present and not null
  Params with(std::string key, Attr value) const;
  Params without(std::string_view key) const;
  const Attr::Dict& items() const { return items_; }
  bool empty() const { return items_.empty(); }

  std::int64_t integer(std::string_view key) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  double number_or(std::string_view key, double fallback) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string fallback) const;
  Dtype dtype(std::string_view key) const;
  Dims dims(std::string_view key) const;
  Dims dims_or(std::string_view key, Dims fallback) const;  // fallback if absent or null
  JaxprPtr jaxpr(std::string_view key) const;
  JaxprPtr jaxpr_or_null(std::string_view key) const;
  std::vector<JaxprPtr> jaxprs(std::string_view key) const;

  friend bool operator==(const Params&, const Params&);

 private:
  [[noreturn]] void fail(std::string_view key, const char* expected) const;
  Attr::Dict items_;
};
bool operator==(const Params&, const Params&);

struct Eqn {
  const Primitive* prim = nullptr;  // identity by address: `eqn.prim == &dot_general_p`, never a name
  std::vector<Atom> in;
  std::vector<Var> out;
  Params params;
  Origin origin;
  std::uint64_t id = 0;  // stable: passes that keep an equation keep its id
};
// A new equation with a fresh id.
Eqn make_eqn(const Primitive&, std::vector<Atom> in, std::vector<Var> out, Params params = {},
             Origin origin = {});

struct Jaxpr {
  std::vector<Var> constvars;  // bound by whoever evaluates; may stand for Vars of an enclosing program
  std::vector<Var> invars;     // the split is stored, never derived
  std::vector<Eqn> eqns;       // topologically ordered
  std::vector<Atom> outs;      // may repeat a Var, be an input, or a Literal

  Avals in_avals() const;
  Avals out_avals() const;
};

// A program with one value per constvar.
struct ClosedJaxpr {
  Jaxpr jaxpr;
  Tensors consts;

  Avals in_avals() const { return jaxpr.in_avals(); }
  Avals out_avals() const { return jaxpr.out_avals(); }
};
inline JaxprPtr share(ClosedJaxpr j) { return std::make_shared<const ClosedJaxpr>(std::move(j)); }

// Structure -------------------------------------------------------------------------------------------------
// Equal up to the names of Vars; origins and ids do not count.
bool equal(const Jaxpr&, const Jaxpr&);
bool equal(const ClosedJaxpr&, const ClosedJaxpr&);
std::size_t hash(const ClosedJaxpr&);  // equal programs have equal hashes
// Every nested program in the parameters, in order of parameter name.
std::vector<JaxprPtr> nested_jaxprs(const Eqn&);

// Typing: def before use, one definition each, arity, parameters and avals by the primitive's own rule.
// CompilationError shows the equations around the fault.
void check(const Jaxpr&);
void check(const ClosedJaxpr&);

// Text ------------------------------------------------------------------------------------------------------
// Names a, b, c … by first appearance: the same program always prints the same text.
std::string to_string(const Jaxpr&);
std::string to_string(
    const ClosedJaxpr&);  // constant values included, so that parse() gives an equal program
std::string to_string(const Attr&);
ClosedJaxpr parse(std::string_view text);  // CompilationError with line and column
ClosedJaxpr parse_file(const std::string& path);

}  // namespace etrace
#pragma GCC visibility pop
