#include "support/random_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "support/numeric.h"
#include "support/step_model.h"

namespace etrace::testing {

// Draws -----------------------------------------------------------------------------------------------------
std::uint64_t Dice::next() {  // splitmix64
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::size_t Dice::weighted(const std::vector<double>& weights) {
  double total = 0.0;
  for (const double w : weights) total += w;
  double at = static_cast<double>(next() >> 11) * 0x1p-53 * total;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if ((at -= weights[i]) < 0.0) return i;
  return weights.size() - 1;
}

// The description -------------------------------------------------------------------------------------------
std::int64_t ModelDescription::size(const std::string& dim) const {
  if (const std::size_t plus = dim.find('+'); plus != std::string::npos)
    return size(dim.substr(0, plus)) + size(dim.substr(plus + 1));
  for (const auto& [name, n] : sizes)
    if (name == dim) return n;
  if (dim.empty() || dim.find_first_not_of("0123456789") != std::string::npos)
    throw ValueError("random model", "no size " + dim);
  return std::stoll(dim);
}

bool ModelDescription::batched() const {
  return std::any_of(sizes.begin(), sizes.end(), [](const auto& s) { return s.first == "b"; });
}

const ModelPort* ModelDescription::port(const std::string& name) const {
  for (const ModelPort& p : ports)
    if (p.name == name) return &p;
  return nullptr;
}

namespace {

std::string lines_text(const std::vector<Line>&, const std::string& indent);

std::string line_text(const Line& l, const std::string& indent) {
  std::string numbers;
  for (const double n : l.numbers) numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", n);
  std::string out = fmt::format("{}{} = {}({}", indent, fmt::join(l.out, ", "), l.op, fmt::join(l.in, ", "));
  if (!numbers.empty()) out += "; " + numbers;
  if (!l.dims.empty()) out += fmt::format(" [{}]", fmt::join(l.dims, ","));
  out += ")";
  for (const Block& b : l.blocks)
    out += fmt::format(" {{ {} ->\n{}{}  -> {} }}", fmt::join(b.args, ", "),
                       lines_text(b.lines, indent + "  "), indent, fmt::join(b.results, ", "));
  return out + "\n";
}

std::string lines_text(const std::vector<Line>& lines, const std::string& indent) {
  std::string out;
  for (const Line& l : lines) out += line_text(l, indent);
  return out;
}

std::string policy_text(const ControlFlowPolicy& p) {
  const ControlFlowPolicy usual;
  std::string out;
  if (p.cond != usual.cond) out += ", conditionals opaque";
  if (p.scan_unroll_limit != usual.scan_unroll_limit)
    out += fmt::format(", loops unrolled up to {}", p.scan_unroll_limit);
  if (p.etp_in_control_flow != usual.etp_in_control_flow) out += ", operators in opaque bodies excluded";
  return out;
}

}  // namespace

std::string to_string(const ModelDescription& m) {
  std::string out = "sizes";
  for (const auto& [name, n] : m.sizes) out += fmt::format(" {}={}", name, n);
  out += fmt::format(", {} steps, random {}{}\n", m.steps, m.seed, policy_text(m.policy));
  for (const ModelPort& p : m.ports)
    out += fmt::format("{} {} [{}]{}{}\n", name(p.role), p.name, fmt::join(p.dims, ","),
                       p.type.empty() ? "" : " ", p.type);
  out += lines_text(m.lines, "");
  if (m.result_first) out += "result " + m.result + "\n";
  for (const auto& [state, value] : m.next) out += fmt::format("{} <- {}\n", state, value);
  if (!m.result_first) out += "result " + m.result + "\n";
  if (!m.params_out) out += "parameters are no outputs\n";
  return out;
}

namespace {

bool smooth(const std::vector<Line>& lines) {
  return std::all_of(lines.begin(), lines.end(), [](const Line& l) {
    return step_op(l.op).smooth &&
           std::all_of(l.blocks.begin(), l.blocks.end(), [](const Block& b) { return smooth(b.lines); });
  });
}

void prune_lines(std::vector<Line>& lines, std::set<std::string>& used) {
  for (std::size_t i = lines.size(); i-- > 0;) {
    Line& l = lines[i];
    if (std::none_of(l.out.begin(), l.out.end(), [&](const std::string& n) { return used.contains(n); })) {
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    used.insert(l.in.begin(), l.in.end());
    for (Block& b : l.blocks) {
      used.insert(b.results.begin(), b.results.end());
      prune_lines(b.lines, used);
    }
  }
}

}  // namespace

bool smooth(const ModelDescription& m) { return smooth(m.lines); }

void prune(ModelDescription& m) {
  std::set<std::string> used{m.result};
  for (const auto& [state, value] : m.next) used.insert(value);
  prune_lines(m.lines, used);
  const auto written = [&](const ModelPort& p) {
    return std::any_of(m.next.begin(), m.next.end(), [&](const auto& n) { return n.first == p.name; });
  };
  // A step has at least one argument.
  const auto arg = std::find_if(m.ports.begin(), m.ports.end(), [&](const ModelPort& p) {
    return p.role == Role::Arg && used.contains(p.name);
  });
  bool kept = arg != m.ports.end();
  std::erase_if(m.ports, [&](const ModelPort& p) {
    if (used.contains(p.name) || written(p)) return false;
    return p.role != Role::Arg || p.type == "index" || std::exchange(kept, true);
  });
  std::set<std::string> dims;
  const auto use = [&](const std::vector<std::string>& names) {
    for (const std::string& d : names)
      for (std::size_t begin = 0; begin <= d.size();) {
        const std::size_t end = std::min(d.find('+', begin), d.size());
        dims.insert(d.substr(begin, end - begin));
        begin = end + 1;
      }
  };
  const std::function<void(const std::vector<Line>&)> visit = [&](const std::vector<Line>& lines) {
    for (const Line& l : lines) {
      use(l.dims);
      for (const Block& b : l.blocks) visit(b.lines);
    }
  };
  for (const ModelPort& p : m.ports) use(p.dims);
  visit(m.lines);
  std::erase_if(m.sizes, [&](const auto& s) { return s.first != "b" && !dims.contains(s.first); });
}

// The traced step -------------------------------------------------------------------------------------------
namespace {

Dtype dtype_of(const ModelPort& p) {
  return p.type == "index" ? Dtype::I32 : p.type == "key" ? Dtype::U32 : Dtype::F64;
}

// "p:bias" is a leaf of p; leaves of one owner are numbered by their names.
InputRecord record_of(const ModelDescription& m, const ModelPort& p) {
  InputRecord r;
  r.role = p.role;
  if (p.role == Role::Arg) return r;
  const std::size_t colon = p.name.find(':');
  const std::string owner = p.name.substr(0, colon);
  r.path = path_of(owner);
  r.type = p.type == "key" ? "RandomState" : p.type;
  if (colon == std::string::npos) return r;
  r.leaf_key = {p.name.substr(colon + 1)};
  for (const ModelPort& other : m.ports)
    if (other.name.starts_with(owner + ":") && other.name < p.name) ++r.leaf;
  return r;
}

}  // namespace

void draw_initial(Model& m, std::uint64_t seed) {
  for (std::size_t i = 0; i < m.inputs.size(); ++i) {
    InputRecord& in = m.inputs[i];
    if (in.role == Role::Arg) continue;
    // By name, so that a value does not depend on what else there is.
    std::uint64_t place = seed * 7919 + 13;
    for (const char c : etrace::to_string(in.path) + ":" + etrace::to_string(in.leaf_key))
      place = place * 1099511628211ULL + static_cast<unsigned char>(c);
    const Aval& type = m.program.jaxpr.invars[i].aval;
    const bool whole = is_integer(type.dtype);
    in.init = Random(place).tensor(type, whole ? 0.0 : -0.8, whole ? 100.0 : 0.8);
  }
}

Model to_model(const ModelDescription& d) {
  Model model;
  model.name = "random";
  std::vector<const ModelPort*> carried;  // what the step gives besides its result
  Avals types;
  std::int64_t args = 0;
  for (const ModelPort& p : d.ports) {
    types.push_back({dtype_of(p), StepScope(d, {}).shape(p.dims)});
    model.inputs.push_back(record_of(d, p));
    if (p.role == Role::Arg) model.inputs.back().index = args++;
  }
  const auto input = [&](const std::string& name) {
    for (std::size_t i = 0; i < d.ports.size(); ++i)
      if (d.ports[i].name == name) return i;
    throw ValueError("random model", "no state " + name);
  };
  for (const auto& [state, value] : d.next) carried.push_back(&d.ports[input(state)]);
  for (const ModelPort& p : d.ports) {
    const bool set = std::find(carried.begin(), carried.end(), &p) != carried.end();
    if (!set && (p.role == Role::Hidden || p.role == Role::Other || (p.role == Role::Param && d.params_out)))
      carried.push_back(&p);
  }
  const auto position = [&](const ModelPort* p) { return static_cast<std::size_t>(p - d.ports.data()); };
  model.program = make_jaxpr(
      [&](ArraySpan in) {
        std::vector<std::pair<std::string, Array>> values;
        for (std::size_t i = 0; i < d.ports.size(); ++i) values.emplace_back(d.ports[i].name, in[i]);
        StepScope scope(d, values);
        scope.run(d.lines);
        Arrays outs;
        for (std::size_t k = 0; k < carried.size(); ++k)
          outs.push_back(k < d.next.size() ? scope.at(d.next[k].second) : in[position(carried[k])]);
        outs.insert(d.result_first ? outs.begin() : outs.end(), scope.at(d.result));
        return outs;
      },
      types);
  for (const ModelPort* p : carried) model.outputs.push_back(model.inputs[position(p)]);
  model.outputs.insert(d.result_first ? model.outputs.begin() : model.outputs.end(), OutputRecord{});
  for (std::size_t o = 0; o < model.outputs.size(); ++o) {
    if (model.outputs[o].role == Role::Out) continue;
    const std::size_t at = o - (d.result_first ? 1 : 0);
    if (aval_of(model.program.jaxpr.outs[o]) != types[position(carried[at])])
      throw ValueError("random model", "a state changes its type: " + carried[at]->name);
  }
  draw_initial(model, d.seed);
  return model;
}

}  // namespace etrace::testing
