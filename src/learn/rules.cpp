// Rules by name.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "etrace/error.h"
#include "etrace/learning.h"

namespace etrace {

std::string_view name(VjpMethod m) { return m == VjpMethod::SingleStep ? "single-step" : "multi-step"; }

namespace {

using RulePtr = std::shared_ptr<const LearningRule>;

RulePtr factorised(const RuleOptions& o) {
  if (!o.decay_or_rank)
    throw TypeError("pp_prop", "needs a decay in [0, 1) or a rank of at least 1; none was given");
  if (o.trace_dtype)
    throw NotSupportedError("pp_prop", "keeps its traces in the model's type; trace_dtype is for D_RTRL");
  return std::make_shared<pp_prop>(IODimOptions{*o.decay_or_rank, o.input_decay_or_rank, o.vjp_method});
}
template <class Rule>
RulePtr per_parameter(const RuleOptions& o) {
  if (o.decay_or_rank || o.input_decay_or_rank)
    throw TypeError("learn", "a decay or rank was given, but only pp_prop takes one");
  return std::make_shared<Rule>(ParamDimOptions{o.vjp_method, o.trace_dtype});
}

struct Row {
  std::string_view name;
  RulePtr (*make)(const RuleOptions&);
};
constexpr Row kRules[] = {
    {"d_rtrl", per_parameter<D_RTRL>},
    {"es_d_rtrl", factorised},
    {"esd_rtrl", factorised},
    {"ostl_recurrent", per_parameter<OSTLRecurrent>},
    {"ostlrecurrent", per_parameter<OSTLRecurrent>},
    {"pp_prop", factorised},
};

std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isspace(static_cast<unsigned char>(c)) == 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::vector<std::string_view> rule_names() {
  std::vector<std::string_view> out;
  for (const Row& row : kRules) out.push_back(row.name);
  return out;
}

std::shared_ptr<const LearningRule> make_rule(std::string_view name, const RuleOptions& options) {
  const std::string wanted = plain(name);
  for (const Row& row : kRules)
    if (row.name == wanted) return row.make(options);
  throw ValueError("learn", fmt::format("there is no learning rule \"{}\"; there are: {}", name,
                                        fmt::join(rule_names(), ", ")));
}

}  // namespace etrace
