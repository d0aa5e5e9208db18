#include "support/step_model.h"

#include <algorithm>

#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/random.h"

namespace etrace::testing {

StatePath path_of(const std::string& text) {
  StatePath path;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string piece = text.substr(begin, end - begin);
    const bool number = !piece.empty() && std::all_of(piece.begin(), piece.end(),
                                                      [](unsigned char c) { return std::isdigit(c) != 0; });
    if (number)
      path.emplace_back(static_cast<std::int64_t>(std::stoll(piece)));
    else
      path.emplace_back(piece);
    begin = end + 1;
  }
  return path;
}

StepInput arg(const std::string& name, const Shape& shape, Dtype dtype) {
  return {Role::Arg, path_of(name), shape, "", 0, {}, dtype};
}
StepInput hidden(const std::string& path, const Shape& shape, const std::string& type) {
  return {Role::Hidden, path_of(path), shape, type};
}
StepInput param(const std::string& path, const Shape& shape) {
  return {Role::Param, path_of(path), shape, "ParamState"};
}
StepInput leaf(const std::string& path, const std::string& key, std::int64_t index, const Shape& shape) {
  return {Role::Param, path_of(path), shape, "ParamState", index, {key}};
}

namespace {
std::size_t find(const std::vector<std::string>& names, const std::string& name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) throw ValueError("step_model", "no input " + name);
  return static_cast<std::size_t>(it - names.begin());
}
}  // namespace

Array In::operator[](const std::string& name) const { return values_[find(names_, name)]; }
void In::set(const std::string& name, const Array& value) { values_[find(names_, name)] = value; }

Model step_model(std::vector<StepInput> inputs, const std::function<Array(In&)>& step, std::uint64_t seed) {
  Model model;
  model.name = "test";
  Avals types;
  std::int64_t next_arg = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const StepInput& in = inputs[i];
    const Aval type{in.dtype, in.shape};
    types.push_back(type);
    InputRecord record;
    record.role = in.role;
    if (in.role == Role::Arg) {
      record.index = next_arg++;
    } else {
      record.path = in.path;
      record.leaf = in.leaf;
      record.leaf_key = in.leaf_key;
      record.type = in.type;
      record.init =
          (random::normal(random::fold_in(random::key(seed), static_cast<int>(i)), in.shape, in.dtype) * 0.5)
              .tensor();
    }
    model.inputs.push_back(record);
  }
  model.program = make_jaxpr(
      [&](ArraySpan values) {
        In in;
        for (const StepInput& s : inputs) {
          std::string name = etrace::to_string(s.path);
          for (const PathPart& k : s.leaf_key) name += ":" + std::get<std::string>(k);
          in.names_.push_back(name);
        }
        in.values_.assign(values.begin(), values.end());
        Arrays outs{step(in)};
        for (std::size_t i = 0; i < inputs.size(); ++i)
          if (inputs[i].role != Role::Arg) outs.push_back(in.values_[i]);
        return outs;
      },
      types);
  model.outputs.push_back({});
  for (const InputRecord& in : model.inputs)
    if (in.role != Role::Arg) model.outputs.push_back(in);
  return model;
}

}  // namespace etrace::testing
