// Operators from outside the library: checked when they are registered, so that a wrong rule never reaches a
// model.
#include <algorithm>
#include <memory>
#include <vector>

#include "etrace/error.h"
#include "etrace/etp.h"

namespace etrace {

namespace {

[[noreturn]] void refuse(const PrimitiveSpec& spec, const std::string& why) {
  throw CompilationError("register_primitive", "operator '" + std::string(spec.name) + "': " + why);
}

void require_slots(const PrimitiveSpec& spec) {
  if (spec.name.empty()) refuse(spec, "a name is needed");
  if (find_primitive(spec.name) != nullptr)
    refuse(spec, "there is an operator of that name already; choose another one");
  if (spec.abstract == nullptr) refuse(spec, "a typing rule (abstract) is needed");
  if (spec.lower == nullptr)
    refuse(spec, "a forward function (lower) is needed: derivatives and batching follow from it");
  if (spec.samples == nullptr || spec.samples(0).empty())
    refuse(spec, "samples are needed to check the rules on");
  if (spec.etp == nullptr) return;
  if (spec.etp->trainables == nullptr || spec.etp->anchors == nullptr)
    refuse(spec, "an ETP operator needs the layout of its trainables and its anchor map");
}

// What a model file may say of the operator is what the row lists.
void require_params(const PrimitiveSpec& spec, const PrimitiveSpec::Sample& sample) {
  for (const auto& [key, value] : sample.params.items())
    if (std::find(spec.params.begin(), spec.params.end(), key) == spec.params.end())
      refuse(spec, "a sample has the parameter '" + key + "', which the row does not list; add it to params");
}

// What the typing rule says is what the forward function gives.
void require_types(const PrimitiveSpec& spec, const PrimitiveSpec::Sample& sample) {
  const Avals in = avals_of(sample.operands);
  const Avals said = spec.abstract(sample.params, in),
              found = avals_of(spec.lower(sample.params, sample.operands));
  if (said.size() != found.size())
    refuse(spec, "the typing rule names " + std::to_string(said.size()) +
                     " results, the forward function gives " + std::to_string(found.size()));
  for (std::size_t i = 0; i < said.size(); ++i)
    if (said[i] != found[i])
      refuse(spec, "the typing rule says " + to_string(said[i]) + " for result " + std::to_string(i) +
                       ", the forward function gives " + to_string(found[i]));
}

}  // namespace

const Primitive& register_primitive(const PrimitiveSpec& spec) {
  require_slots(spec);
  const std::vector<PrimitiveSpec::Sample> samples = spec.samples(0);
  for (const PrimitiveSpec::Sample& sample : samples) {
    require_params(spec, sample);
    require_types(spec, sample);
  }
  auto row = std::make_unique<const Primitive>(spec);  // leaves the table again if the check below throws
  if (spec.etp != nullptr) validate_etp(*row, samples);
  static std::vector<std::unique_ptr<const Primitive>> registered;  // they live as long as the program
  registered.push_back(std::move(row));
  return *registered.back();
}

}  // namespace etrace
