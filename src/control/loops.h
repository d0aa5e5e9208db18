// Which operation with bodies an equation is, and the parameters of loops in one place.
#pragma once

#include <cstdint>
#include <span>

#include "etrace/control.h"
#include "etrace/ir.h"

namespace etrace {

enum class ControlFlow : std::uint8_t { None, Scan, While, Cond };
inline ControlFlow control_flow(const Eqn& eqn) {
  return eqn.prim == &scan_p    ? ControlFlow::Scan
         : eqn.prim == &while_p ? ControlFlow::While
         : eqn.prim == &cond_p  ? ControlFlow::Cond
                                : ControlFlow::None;
}
inline bool is_scan(const Eqn& eqn) { return control_flow(eqn) == ControlFlow::Scan; }
inline bool is_while(const Eqn& eqn) { return control_flow(eqn) == ControlFlow::While; }
inline bool is_cond(const Eqn& eqn) { return control_flow(eqn) == ControlFlow::Cond; }

// A function with derivatives of its own.
inline bool has_own_derivative(const Eqn& eqn) {
  return eqn.prim == &custom_jvp_call_p || eqn.prim == &custom_vjp_call_p;
}

namespace loops {

// The parameters of scan, and the split of operands and results.
struct Scan {
  JaxprPtr body;
  std::int64_t length;
  bool reverse;
  std::size_t num_consts, num_carry;
  std::int64_t checkpoint_every;

  explicit Scan(const Params& p)
      : body(p.jaxpr("jaxpr")),
        length(p.integer("length")),
        reverse(p.boolean_or("reverse", false)),
        num_consts(static_cast<std::size_t>(p.integer("num_consts"))),
        num_carry(static_cast<std::size_t>(p.integer("num_carry"))),
        checkpoint_every(p.integer_or("checkpoint_every", 0)) {}
  explicit Scan(const Eqn& eqn) : Scan(eqn.params) {}

  Params with_body(ClosedJaxpr program, std::size_t consts, std::size_t carry) const {
    Params p{{"jaxpr", share(std::move(program))},
             {"length", length},
             {"reverse", reverse},
             {"num_consts", consts},
             {"num_carry", carry}};
    return checkpoint_every > 0 ? p.with("checkpoint_every", checkpoint_every) : p;
  }

  std::size_t first_x() const { return num_consts + num_carry; }
  std::size_t num_xs() const { return body->jaxpr.invars.size() - first_x(); }
  std::size_t num_ys() const { return body->jaxpr.outs.size() - num_carry; }
  template <class T>
  std::span<const T> consts(std::span<const T> x) const {
    return x.first(num_consts);
  }
  template <class T>
  std::span<const T> carry(std::span<const T> x) const {
    return x.subspan(num_consts, num_carry);
  }
  template <class T>
  std::span<const T> xs(std::span<const T> x) const {
    return x.subspan(first_x());
  }
};

struct While {
  JaxprPtr cond, body;
  std::size_t cond_nconsts, body_nconsts;

  explicit While(const Params& p)
      : cond(p.jaxpr("cond_jaxpr")),
        body(p.jaxpr("body_jaxpr")),
        cond_nconsts(static_cast<std::size_t>(p.integer("cond_nconsts"))),
        body_nconsts(static_cast<std::size_t>(p.integer("body_nconsts"))) {}
  explicit While(const Eqn& eqn) : While(eqn.params) {}

  std::size_t num_carry() const { return body->jaxpr.outs.size(); }
  std::size_t num_consts() const { return cond_nconsts + body_nconsts; }
  template <class T>
  std::span<const T> cond_consts(std::span<const T> x) const {
    return x.first(cond_nconsts);
  }
  template <class T>
  std::span<const T> body_consts(std::span<const T> x) const {
    return x.subspan(cond_nconsts, body_nconsts);
  }
  template <class T>
  std::span<const T> carry(std::span<const T> x) const {
    return x.subspan(num_consts(), num_carry());
  }
};

}  // namespace loops

}  // namespace etrace
