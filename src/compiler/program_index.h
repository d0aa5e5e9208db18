// Which equations of a program are trainable operators. Private to the library.
#pragma once

#include "core/flow.h"
#include "etrace/etp.h"

namespace etrace {

// An ETP operator that mixes positions: everything but the element-wise one. It ends every tail and, in the
// diagonal scope, every transition.
inline bool is_mixing_etp(const Eqn& eqn) {
  const EtpRules* rules = etp_rules(*eqn.prim);
  return rules != nullptr && !rules->gradient_enabled;
}

// Whether a program holds an ETP operator at any depth.
bool contains_etp(const Jaxpr&);

}  // namespace etrace
