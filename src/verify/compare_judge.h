// BPTT of one draw, parameter by parameter, as compare_rules() holds rules against it. Private to verify/.
#pragma once

#include "etrace/compare_rules.h"
#include "verify/verify_oracle.h"

namespace etrace {

using Doubles = std::vector<double>;

struct Judge {
  struct Leaf {
    bool alive = false, through_time = false;
    bool credited = false;  // the last step's loss gives it a gradient
    Doubles gradient;
    std::vector<Doubles> credit;  // of the last step's loss from lags below d + 1
    Doubles credit_all;
    std::optional<std::int64_t> horizon;
  };
  std::vector<Leaf> leaves;  // in the order of param_leaf_ids()
};
// ValueError for a loss that is not finite. Lags beyond the sequence are left out.
Judge judge_of(const SequenceOracle&, std::int64_t steps, std::int64_t lags);

// The smallest number of lags that hold the whole up to 10 %; none: more than there are, or there is nothing.
std::optional<std::int64_t> horizon_of(const std::vector<Doubles>& cumulated, const Doubles& all);

// Why a parameter is not judged; empty: it is. By structure: it acts on its own step only, or feeds leaky
// readouts alone.
std::vector<std::string> reasons_to_leave_out(const ETraceGraph&, const std::vector<Judge>& draws);

}  // namespace etrace
