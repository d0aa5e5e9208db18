#include "support/shrink_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "etrace/error.h"
#include "etrace/expected.h"
#include "etrace/ops/numpy.h"

namespace etrace::testing {

namespace {

using Candidates = std::vector<ModelDescription>;

// Changing names -------------------------------------------------------------------------------------------
void rename_in(std::vector<std::string>& names, const std::string& from, const std::string& to) {
  std::replace(names.begin(), names.end(), from, to);
}
void rename_uses(std::vector<Line>& lines, const std::string& from, const std::string& to) {
  for (Line& l : lines) {
    rename_in(l.in, from, to);
    for (Block& b : l.blocks) {
      rename_in(b.results, from, to);
      rename_uses(b.lines, from, to);
    }
  }
}
// Every reader of `from` reads `to`.
void redirect(ModelDescription& m, const std::string& from, const std::string& to) {
  rename_uses(m.lines, from, to);
  for (auto& [state, value] : m.next)
    if (value == from) value = to;
  if (m.result == from) m.result = to;
}

// Every list of lines of a model, bodies included; f gets a way back into any copy of it.
using Path = std::vector<std::pair<std::size_t, std::size_t>>;  // line, block
std::vector<Line>& lines_at(ModelDescription& m, const Path& path) {
  std::vector<Line>* lines = &m.lines;
  for (const auto& [line, block] : path) lines = &(*lines)[line].blocks[block].lines;
  return *lines;
}
void collect_paths(const std::vector<Line>& lines, const Path& here, std::vector<Path>& out) {
  out.push_back(here);
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (std::size_t b = 0; b < lines[i].blocks.size(); ++b) {
      Path inner = here;
      inner.emplace_back(i, b);
      collect_paths(lines[i].blocks[b].lines, inner, out);
    }
}
std::vector<Path> all_paths(const ModelDescription& m) {
  std::vector<Path> out;
  collect_paths(m.lines, {}, out);
  return out;
}

ModelDescription pruned(ModelDescription m) {
  prune(m);
  return m;
}

std::string unused_name(const ModelDescription& m, const std::string& stem) {
  const std::string text = to_string(m);
  for (int i = 0;; ++i)
    if (const std::string name = stem + std::to_string(i); text.find(name) == std::string::npos) return name;
}

// Passes ---------------------------------------------------------------------------------------------------
// A value of a port's shape in place of it: zeros for states, constants for parameters.
Line in_place_of(const ModelPort& p, const std::string& name) {
  if (p.role == Role::Param) return {{name}, "constant", {}, {17}, p.dims};
  return {{name}, "zeros", {}, {}, p.dims};
}

Candidates without_states(const ModelDescription& m) {
  Candidates out;
  for (const ModelPort& p : m.ports) {
    if (p.role != Role::Hidden && p.role != Role::Other) continue;
    ModelDescription c = m;
    if (p.type != "key") {
      const std::string name = unused_name(m, "z");
      redirect(c, p.name, name);
      c.lines.insert(c.lines.begin(), in_place_of(p, name));
    }
    std::erase_if(c.next, [&](const auto& n) { return n.first == p.name; });
    std::erase_if(c.ports, [&](const ModelPort& q) { return q.name == p.name; });
    out.push_back(pruned(c));
  }
  return out;
}

Candidates other_results(const ModelDescription& m) {
  Candidates out;
  const auto with = [&](const std::string& value) {
    ModelDescription c = m;
    c.result = value;
    if (value != m.result) out.push_back(pruned(c));
  };
  for (const auto& [state, value] : m.next) with(value);
  for (const ModelPort& p : m.ports)
    if (p.role == Role::Hidden) with(p.name);
  return out;
}

// A line gives way to one of its operands.
Candidates bypassed_lines(const ModelDescription& m) {
  Candidates out;
  for (const Path& path : all_paths(m)) {
    ModelDescription copy = m;
    const std::vector<Line> lines = lines_at(copy, path);
    for (std::size_t i = lines.size(); i-- > 0;)
      for (const std::string& in : lines[i].in) {
        ModelDescription c = m;
        redirect(c, lines[i].out[0], in);
        // Not its own line: that one would read itself.
        std::vector<Line>& own = lines_at(c, path);
        own.erase(own.begin() + static_cast<std::ptrdiff_t>(i));
        out.push_back(pruned(c));
      }
  }
  return out;
}

// Bodies take the place of their conditional, loop or call, run once.
Candidates inlined_bodies(const ModelDescription& m) {
  Candidates out;
  for (const Path& path : all_paths(m)) {
    ModelDescription copy = m;
    const std::vector<Line> lines = lines_at(copy, path);
    for (std::size_t i = 0; i < lines.size(); ++i)
      for (const Block& b : lines[i].blocks) {
        ModelDescription c = m;
        std::vector<Line>& own = lines_at(c, path);
        own.erase(own.begin() + static_cast<std::ptrdiff_t>(i));
        own.insert(own.begin() + static_cast<std::ptrdiff_t>(i), b.lines.begin(), b.lines.end());
        const std::size_t skip = lines[i].op == "cond" ? 1 : 0;
        for (std::size_t k = 0; k < b.args.size() && k + skip < lines[i].in.size(); ++k)
          redirect(c, b.args[k], lines[i].in[k + skip]);
        for (std::size_t k = 0; k < b.results.size() && k < lines[i].out.size(); ++k) {
          const auto arg = std::find(b.args.begin(), b.args.end(), b.results[k]);
          redirect(c, lines[i].out[k],
                   arg == b.args.end() ? b.results[k]
                                       : lines[i].in[static_cast<std::size_t>(arg - b.args.begin()) + skip]);
        }
        out.push_back(pruned(c));
      }
  }
  return out;
}

// One use of a parameter or of an old state, or all of them, becomes a constant.
Candidates fixed_values(const ModelDescription& m) {
  Candidates out;
  for (const ModelPort& p : m.ports) {
    if (p.role == Role::Arg || p.type == "key") continue;
    const std::string name = unused_name(m, "z");
    ModelDescription all = m;
    redirect(all, p.name, name);
    all.lines.insert(all.lines.begin(), in_place_of(p, name));
    out.push_back(pruned(all));
    for (const Path& path : all_paths(m)) {
      ModelDescription copy = m;
      const std::vector<Line> lines = lines_at(copy, path);
      for (std::size_t i = 0; i < lines.size(); ++i)
        for (std::size_t k = 0; k < lines[i].in.size(); ++k) {
          if (lines[i].in[k] != p.name) continue;
          ModelDescription c = m;
          lines_at(c, path)[i].in[k] = name;
          c.lines.insert(c.lines.begin(), in_place_of(p, name));
          out.push_back(pruned(c));
        }
    }
  }
  return out;
}

Candidates without_batch(const ModelDescription& m) {
  if (!m.batched()) return {};
  ModelDescription c = m;
  std::erase_if(c.sizes, [](const auto& s) { return s.first == "b"; });
  const auto drop = [](std::vector<std::string>& dims) { std::erase(dims, "b"); };
  for (ModelPort& p : c.ports) drop(p.dims);
  for (const Path& path : all_paths(c))
    for (Line& l : lines_at(c, path)) drop(l.dims);
  return {c};
}

Candidates smaller_sizes(const ModelDescription& m) {
  Candidates out;
  for (std::size_t i = 0; i < m.sizes.size(); ++i)
    for (std::int64_t n = 1; n < m.sizes[i].second; ++n) {
      ModelDescription c = m;
      c.sizes[i].second = n;
      out.push_back(c);
    }
  return out;
}

Candidates fewer_steps(const ModelDescription& m) {
  Candidates out;
  for (std::int64_t n = 1; n < m.steps; ++n) {
    out.push_back(m);
    out.back().steps = n;
  }
  return out;
}

// Functions of weights, biases, loops' lengths, constants.
Candidates plainer_lines(const ModelDescription& m) {
  Candidates out;
  const std::map<std::string, std::size_t> without_bias{
      {"matmul", 2}, {"grouped", 2}, {"sparse", 2}, {"lora", 3}, {"conv1", 2}, {"conv2", 2}, {"conv3", 2}};
  for (const Path& path : all_paths(m)) {
    ModelDescription copy = m;
    const std::vector<Line> lines = lines_at(copy, path);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto change = [&](const auto& f) {
        ModelDescription c = m;
        f(lines_at(c, path)[i]);
        out.push_back(pruned(c));
      };
      const Line& l = lines[i];
      const auto bias = without_bias.find(l.op);
      if (bias != without_bias.end() && l.in.size() > bias->second)
        change([&](Line& own) { own.in.resize(bias->second); });
      if (bias != without_bias.end() && l.op != "sparse" && !l.numbers.empty())
        change([&](Line& own) { own.numbers.clear(); });
      if (bias != without_bias.end() && l.op != "matmul")
        change([&](Line& own) { own = {own.out, "reproject", {own.in[0]}, {17}, {"n"}}; });
      if (l.op.starts_with("spike") && l.op != "spike") change([&](Line& own) { own.op = "spike"; });
      if (l.op != "tanh" && l.in.size() == 1 && l.dims.empty() && l.blocks.empty() && l.op != "scale")
        change([&](Line& own) { own = {own.out, "tanh", own.in}; });
      if (l.op == "mul" || l.op == "sub") change([&](Line& own) { own.op = "add"; });
      if (l.op == "while" && l.numbers[0] > 1) change([&](Line& own) { own.numbers[0] = 1; });
    }
  }
  return out;
}

Candidates usual_options(const ModelDescription& m) {
  Candidates out;
  const auto change = [&](const auto& f) {
    ModelDescription c = m;
    f(c);
    if (to_string(c) != to_string(m)) out.push_back(c);
  };
  change([](ModelDescription& c) { c.policy = {}; });
  change([](ModelDescription& c) { c.result_first = true; });
  change([](ModelDescription& c) { c.params_out = true; });
  change([](ModelDescription& c) {
    std::stable_sort(c.ports.begin(), c.ports.end(), [](const ModelPort& a, const ModelPort& b) {
      return std::tie(a.role, a.name) < std::tie(b.role, b.name);
    });
  });
  change([](ModelDescription& c) {
    const auto place = [&](const std::string& state) { return c.port(state) - c.ports.data(); };
    std::sort(c.next.begin(), c.next.end(),
              [&](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
  });
  for (const ModelPort& p : m.ports)
    if (p.role == Role::Other && p.type != "key")
      change([&](ModelDescription& c) {
        for (ModelPort& q : c.ports)
          if (q.name == p.name) q = {Role::Hidden, p.name, p.dims, "HiddenState"};
      });
  return out;
}

// Names in the order of appearance.
void rename(std::vector<Line>& lines, std::map<std::string, std::string>& names, int& count) {
  const auto known = [&](std::string& n) {
    if (const auto it = names.find(n); it != names.end()) n = it->second;
  };
  const auto fresh = [&](std::string& n) { n = names[n] = "v" + std::to_string(count++); };
  for (Line& l : lines) {
    for (std::string& n : l.in) known(n);
    for (Block& b : l.blocks) {
      for (std::string& n : b.args) fresh(n);
      rename(b.lines, names, count);
      for (std::string& n : b.results) known(n);
    }
    for (std::string& n : l.out) fresh(n);
  }
}
Candidates plain_names(const ModelDescription& m) {
  ModelDescription c = m;
  std::map<std::string, std::string> names;
  std::map<Role, int> counts;
  for (ModelPort& p : c.ports) {
    if (p.type == "key" || p.type == "index" || p.name.find(':') != std::string::npos) continue;
    const std::string stem = p.role == Role::Arg ? "x" : p.role == Role::Param ? "w" : "h";
    p.name = names[p.name] = stem + std::to_string(counts[p.role == Role::Other ? Role::Hidden : p.role]++);
  }
  int count = 0;
  rename(c.lines, names, count);
  const auto known = [&](std::string& n) {
    if (const auto it = names.find(n); it != names.end()) n = it->second;
  };
  for (auto& [state, value] : c.next) {
    known(state);
    known(value);
  }
  known(c.result);
  return to_string(c) == to_string(m) ? Candidates{} : Candidates{c};
}

}  // namespace

namespace {

// How much there is of a model, what matters most first. Only what is less is taken, so that shrinking ends.
std::vector<std::int64_t> weight_of(const ModelDescription& m) {
  std::int64_t states = 0, params = 0, bodies = 0, lines = 0, odd = 0, operands = 0, sizes = 0, disorder = 0;
  for (const ModelPort& p : m.ports) {
    (p.role == Role::Param ? params : states) += p.role == Role::Arg ? 0 : 1;
    if (p.role == Role::Other) ++disorder;
  }
  ModelDescription copy = m;
  for (const Path& path : all_paths(m)) {
    bodies += path.empty() ? 0 : 1;
    for (const Line& l : lines_at(copy, path)) {
      const bool plain = l.op == "tanh" || l.op == "add" || l.op == "scale" || l.op == "matmul";
      if (l.op != "zeros" && l.op != "constant") ++lines;
      odd += plain ? 0 : 1;
      operands += static_cast<std::int64_t>(l.in.size() + l.numbers.size());
    }
  }
  for (const auto& [name, n] : m.sizes) sizes += n;
  for (std::size_t i = 1; i < m.ports.size(); ++i)
    if (std::tie(m.ports[i].role, m.ports[i].name) < std::tie(m.ports[i - 1].role, m.ports[i - 1].name))
      ++disorder;
  for (std::size_t i = 1; i < m.next.size(); ++i)
    if (m.port(m.next[i].first) < m.port(m.next[i - 1].first)) ++disorder;
  disorder += (m.result_first ? 0 : 1) + (m.params_out ? 0 : 1);
  return {states,   bodies,   lines,
          params,   odd,      static_cast<std::int64_t>(m.ports.size()),
          operands, m.steps,  m.batched() ? 1 : 0,
          sizes,    disorder, static_cast<std::int64_t>(to_string(m).size())};
}

}  // namespace

JudgeOptions options_for(const ModelDescription& m, std::uint64_t seed, std::size_t rules) {
  static const std::vector<RuleChoice> choices = rule_choices();
  Dice dice(seed + 977);
  JudgeOptions o;
  o.policy = m.policy;
  o.steps = m.steps;
  const auto take = [&](const RuleChoice& r) {
    const bool there = std::any_of(o.rules.begin(), o.rules.end(),
                                   [&](const RuleChoice& other) { return other.label == r.label; });
    if (!there) o.rules.push_back(r);
  };
  std::vector<RuleChoice> tight;  // may be exact
  for (const RuleChoice& r : choices)
    if (r.rule->theory(true).statement == LearningRule::Theory::Exact) tight.push_back(r);
  take(dice.of(tight));
  while (o.rules.size() < std::min(rules, choices.size())) take(dice.of(choices));
  for (std::size_t i = 0; i < o.rules.size(); ++i)
    for (const RuleChoice& r : choices)
      if (r.label == o.rules[i].same_as && dice.chance(0.3)) take(r);
  // A rule whose own step comes from its factors, always: reverse mode is the same for all others.
  for (const RuleChoice& r : choices)
    if (r.label == "pp_prop") o.first_step.push_back(r);
  o.execution_windows = {1, dice.chance(0.5) ? 2 : 3};
  o.windows = {dice.chance(0.15) ? 1 : dice.chance(0.5) ? 2 : 3};
  o.whole_sequence = dice.chance(0.1);
  o.in_parts = dice.chance(0.1);
  o.by_host = dice.chance(0.1);
  o.weighted = dice.chance(0.15);
  o.freeze = o.weighted && dice.chance(0.5);
  o.by_reverse_mode = dice.chance(0.25);
  o.differences = smooth(m) && dice.chance(0.25);
  return o;
}

Shrunk shrink(const ModelDescription& given, const StillFails& fails, const ShrinkOptions& o) {
  Shrunk s{given};
  std::vector<Candidates (*)(const ModelDescription&)> passes{without_states, inlined_bodies, other_results,
                                                              bypassed_lines, without_batch,  fixed_values,
                                                              plainer_lines,  usual_options};
  if (o.sizes) passes.insert(passes.begin(), fewer_steps);
  if (o.sizes) passes.push_back(smaller_sizes);
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& pass : passes)
      for (bool again = true; again;) {
        again = false;
        for (const ModelDescription& c : pass(s.model)) {
          if (s.tried >= o.max_tries) return s;
          if (weight_of(c) >= weight_of(s.model)) continue;
          ++s.tried;
          if (!fails(c)) continue;
          s.model = c;
          ++s.taken;
          changed = again = true;
          break;
        }
      }
  }
  return s;
}

ModelDescription with_plain_names(const ModelDescription& m) {
  const Candidates c = plain_names(m);
  return c.empty() ? m : c.front();
}

std::optional<Finding> finding_like(const ModelDescription& m, const Finding& f, const JudgeOptions& all) {
  JudgeOptions o = only(f, all);
  o.policy = m.policy;
  o.steps = m.steps;
  try {
    std::optional<Finding> like;
    for (const Finding& found : judge(to_model(m), o).findings)
      if (class_of(found) == class_of(f) && found.rule == f.rule && (!like || found.leaf == f.leaf))
        like = found;
    return like;
  } catch (const Error&) {
    // It cannot be traced, or the references cannot run it.
  }
  return std::nullopt;
}

MinimalCase minimal_case(const ModelDescription& m, const Finding& f, const JudgeOptions& asked) {
  JudgeOptions o = asked;
  o.weighted = o.freeze = false;
  if (!finding_like(m, f, o)) o = asked;
  const auto same = [&](const ModelDescription& c) {
    const std::optional<Finding> found = finding_like(c, f, o);
    return found && found->leaf == f.leaf;
  };
  // With one step or one position everything is exact.
  const Shrunk s = shrink(m, same, {.sizes = f.fault != Fault::FalseApproximate});
  const ModelDescription plain = with_plain_names(s.model);
  if (const auto found = finding_like(plain, f, o)) return {plain, *found, o.weighted};
  return {s.model, finding_like(s.model, f, o).value_or(f), o.weighted};
}

// The file --------------------------------------------------------------------------------------------------
std::string report_file(const MinimalCase& c, const JudgeOptions& o) {
  Model m = to_model(c.model);
  const ValueDraw d = draw_values(m, c.model.steps, 0);
  const ReferenceGradient reference = DenseRtrl64(m)(d);
  ExpectedRun bptt;
  bptt.id = bptt.algorithm = "BPTT";
  bptt.loss = "mse";
  bptt.window = c.model.steps;
  bptt.args = to_tensors(ArraySpan(d.sequences).first(d.sequences.size() - 1));
  bptt.targets = d.sequences.back().tensor();
  // Files hold the mean of the squares, the judge looks at their sum.
  const double share = static_cast<double>(d.steps()) / static_cast<double>(bptt.targets.size());
  std::map<std::string, Tensors> grads;
  std::string owner;
  std::size_t at = 0;
  for (const InputRecord& in : m.inputs) {
    if (in.role != Role::Param) continue;
    Numbers g = reference.leaves[at++];
    for (double& x : g) x *= share;
    Tensors& leaves = grads[etrace::to_string(in.path)];
    leaves.resize(std::max(leaves.size(), static_cast<std::size_t>(in.leaf) + 1));
    leaves[static_cast<std::size_t>(in.leaf)] = array(g, in.init.shape(), Dtype::F64).tensor();
    if (etrace::to_string(ParamLeafId{in.path, in.leaf, etrace::to_string(in.leaf_key)}) == c.finding.leaf)
      owner = etrace::to_string(in.path);
  }
  bptt.grads = Named<Tensors>(grads.begin(), grads.end());
  Expected expected;
  expected.runs = std::vector<ExpectedRun>{bptt};
  for (const auto* rules : {&o.rules, &o.first_step})
    for (const RuleChoice& r : *rules) {
      if (r.label != c.finding.rule || owner.empty() || c.weighted ||
          (c.finding.fault != Fault::FalseExact && c.finding.fault != Fault::NotReverseMode &&
           c.finding.fault != Fault::FirstStep))
        continue;
      ExpectedRun run;
      run.algorithm = r.row;
      run.options = Attr::dict(r.options.items());
      run.vjp_method = name(c.finding.run.vjp);
      run.window = c.finding.run.window;
      run.id = fmt::format("{}/{}", r.label, c.finding.method);
      run.loss = "mse";
      run.grads = Named<Tensors>{{owner, grads[owner]}};
      expected.runs->push_back(run);
    }
  m.expected = std::make_shared<const Expected>(std::move(expected));
  m.name = fmt::format("random_{}", c.model.seed);
  m.source = "random model";
  m.note = to_string(c.finding) + (c.weighted ? "; the losses of the steps are weighted" : "");
  m.equations = to_string(c.model);
  return write_model(m);
}

}  // namespace etrace::testing
