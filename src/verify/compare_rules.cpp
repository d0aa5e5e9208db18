// compare_rules(): every rule beside BPTT, with its memory and its time. Start with Comparison::operator().
// BPTT is in compare_judge.cpp, the forms of the result are in compare_text.cpp and compare_page.cpp.
#include "etrace/compare_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "etrace/error.h"
#include "io/step_outputs.h"
#include "learn/rules/readout_filter.h"
#include "learn/run/online_run.h"
#include "learn/traces/interface.h"
#include "verify/compare_judge.h"
#include "verify/compare_words.h"
#include "verify/verify_words.h"

namespace etrace {

std::vector<std::shared_ptr<const LearningRule>> rules_to_compare() {
  std::vector<std::shared_ptr<const LearningRule>> out;
  for (const RuleRow* row : rule_rows())
    for (const RuleOptions& o : row->compared) out.push_back(row->make(o));
  return out;
}

namespace {

using Horizons = std::vector<std::optional<std::int64_t>>;

// None counts as more than any.
std::optional<std::int64_t> median(Horizons list) {
  if (list.empty()) return std::nullopt;
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a && (!b || *a < *b); });
  return list[(list.size() - 1) / 2];
}
double median(Doubles list) {
  if (list.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(list.begin(), list.end());
  const std::size_t n = list.size();
  return n % 2 == 1 ? list[n / 2] : 0.5 * (list[n / 2 - 1] + list[n / 2]);
}
double mean(const Doubles& list) {
  if (list.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0.0;
  for (const double x : list) sum += x;
  return sum / static_cast<double>(list.size());
}
double deviation(const Doubles& list) {
  if (list.size() < 2) return 0.0;
  const double m = mean(list);
  double sum = 0.0;
  for (const double x : list) sum += (x - m) * (x - m);
  return std::sqrt(sum / static_cast<double>(list.size() - 1));
}

// What a row's draws gave, before it is summed up.
struct Measures {
  struct Parameter {
    Doubles cosines, ratios;
    Horizons horizons;
  };
  std::vector<Parameter> parameters;  // those that are judged
  Doubles draw_cosines;               // mean over the parameters, per draw
};

// How far back the rule's own credit reaches, per leaf. Inside of a window it is that of BPTT.
Horizons horizons_of(const Judge& j, const OnlineRun& online, std::int64_t window, std::int64_t steps,
                     std::int64_t lags) {
  const std::int64_t first = std::max<std::int64_t>(window, 1), looked_at = std::min(lags, steps);
  std::vector<std::int64_t> steps_back;
  for (std::int64_t d = first; d <= looked_at; ++d) steps_back.push_back(d);
  if (steps_back.empty() || steps_back.back() < steps) steps_back.push_back(steps);
  const std::vector<Arrays> found = online.last_step(steps_back, window);
  Horizons out;
  for (std::size_t i = 0; i < j.leaves.size(); ++i) {
    if (!j.leaves[i].credited) {
      out.emplace_back();
      continue;
    }
    const std::vector<Doubles>& exact = j.leaves[i].credit;
    std::vector<Doubles> cumulated(exact.begin(), exact.begin() + std::min(first - 1, looked_at));
    for (std::size_t k = 0; k < found.size(); ++k)
      if (steps_back[k] <= looked_at) cumulated.push_back(found[k][i].tensor().to_doubles());
    out.push_back(horizon_of(cumulated, found.back()[i].tensor().to_doubles()));
  }
  return out;
}

class Clock {
 public:
  explicit Clock(std::optional<double> seconds) : seconds_(seconds) {}
  // Nothing: there is no end.
  std::optional<double> left() const {
    if (!seconds_) return std::nullopt;
    const auto now = std::chrono::steady_clock::now();
    return *seconds_ - std::chrono::duration<double>(now - begin_).count();
  }
  bool allows(double seconds) const { return !seconds_ || (*left() > 0.0 && seconds <= *left()); }

 private:
  std::optional<double> seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// A rule that the model allows.
struct Candidate {
  const LearningRule* rule;
  const ETraceGraph* graph;
  std::string name;
  std::int64_t numbers;  // that a step moves: traces and Jacobians
};

std::int64_t numbers_of(const ETraceGraph& g, const BoundRule& bound) {
  std::int64_t out = 0;
  for (const TraceSlot& s : bound.slots()) out += s.aval.shape.size();
  for (const HiddenGroup& group : g.hidden_groups)
    out += group.varshape().size() * group.trace_state_width() * group.trace_state_width();
  return out;
}

class Comparison {
 public:
  Comparison(std::span<const ModelDraw> draws, const StepFunction& f, const CompareOptions& o)
      : draws_(draws), f_(f), o_(o), steps_(draws[0].sequences[0].shape()[0]), clock_(o.seconds) {
    for (const std::int64_t k : o.windows) {
      if (k < 1) throw ValueError("rules", fmt::format("a window of {} steps; give 1 or more", k));
      if (k <= steps_) windows_.push_back(k);
    }
  }

  RuleComparison operator()(std::span<const std::shared_ptr<const LearningRule>> rules) {
    std::vector<Candidate> candidates;
    for (const auto& rule : rules) attempt(rule->describe(), "", [&] { prepare(*rule, candidates); });
    if (candidates.empty() && first_error_ != nullptr) std::rethrow_exception(first_error_);
    if (candidates.empty()) throw ValueError("rules", "no rule was given, or no way to run it");
    // What costs little comes first, so that no rule holds up the others.
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.numbers < b.numbers; });
    start(*candidates.front().graph);
    for (const Candidate& p : candidates) run(p);
    if (out_.rows.empty() && !out_of_time_ && first_error_ != nullptr) std::rethrow_exception(first_error_);
    mark_best();
    return std::move(out_);
  }

 private:
  template <class F>
  void attempt(const std::string& rule, const std::string& where, const F& f) {
    const auto refuse = [&](const std::string& why) {
      if (first_error_ == nullptr) first_error_ = std::current_exception();
      out_.refused.push_back({rule, where, why});
    };
    try {
      f();
    } catch (const NotSupportedError& e) {
      refuse(e.message());
    } catch (const CompilationError& e) {
      refuse(e.message());
    }
  }

  // Rules of one scope share a graph.
  const ETraceGraph& graph_for(const LearningRule& rule) {
    CompileOptions options;
    options.control_flow = o_.control_flow;
    options.compat = o_.compat;
    rule.configure(options);
    for (const auto& g : graphs_)
      if (g->options.include_recurrent_mixing == options.include_recurrent_mixing &&
          g->options.sparse_n == options.sparse_n && g->options.composite == options.composite &&
          g->options.snap_max_jacobian_elements == options.snap_max_jacobian_elements)
        return *g;
    graphs_.push_back(std::make_unique<const ETraceGraph>(compile_etrace_graph(draws_[0].model, options)));
    return *graphs_.back();
  }

  void prepare(const LearningRule& rule, std::vector<Candidate>& list) {
    const ETraceGraph& graph = graph_for(rule);
    if (graph.all_relations().empty()) Learner(graph, rule);  // refuses, and says why
    const std::unique_ptr<const BoundRule> bound = rule.bind(graph);
    if (const std::string why = told_by_another(rule, graph, list); !why.empty())
      out_.not_measured.push_back({rule.describe(), "", why});
    else
      list.push_back({&rule, &graph, rule.describe_on(graph), numbers_of(graph, *bound)});
  }

  // Why a rule that is in the list says the same on this graph.
  static std::string told_by_another(const LearningRule& rule, const ETraceGraph& graph,
                                     const std::vector<Candidate>& list) {
    const bool beside_d_rtrl = std::any_of(list.begin(), list.end(),
                                           [](const Candidate& c) { return c.rule->describe() == "D_RTRL"; });
    if (!beside_d_rtrl) return {};
    if (graph.options.composite && graph.composite_relations.empty())
      return "no weight acts through another one, so composite changes nothing";
    if (const std::string why = why_without_filter(rule, graph); !why.empty() && rule.describe() == "EProp")
      return why + ", so it is D_RTRL";
    return {};
  }

  void start(const ETraceGraph& graph) {
    Avals slices;
    for (const Array& a : draws_[0].sequences) slices.push_back({a.dtype(), a.shape().without(0)});
    step_.emplace(StepProgram::trace(graph, f_, slices));
    for (const ModelDraw& d : draws_)
      judges_.push_back(judge_of(SequenceOracle(d.model, *step_, d.sequences), steps_, o_.lags));
    out_.model = graph.module_info.model.name;
    out_.steps = steps_;
    out_.lags = std::min(o_.lags, steps_);
    out_.draws = static_cast<int>(draws_.size());
    out_.dtype = working_dtype(graph);
    out_.backend = o_.backend;
    choose_parameters(graph);
    Horizons horizons;
    for (const Judge& j : judges_)
      for (const std::size_t i : judged_)
        if (j.leaves[i].credited) horizons.push_back(j.leaves[i].horizon);
    out_.bptt_horizon = median(std::move(horizons));
    if (o_.on_row) o_.on_row(out_);
  }

  // Those that act through time and not on a readout alone; where there is none, what else has a gradient.
  void choose_parameters(const ETraceGraph& graph) {
    const std::vector<ParamLeafId> ids = param_leaf_ids(graph.module_info);
    const std::vector<std::string> reasons = reasons_to_leave_out(graph, judges_);
    const auto alive = [&](std::size_t i, bool through_time) {
      return std::any_of(judges_.begin(), judges_.end(), [&](const Judge& j) {
        return j.leaves[i].alive && (!through_time || j.leaves[i].through_time);
      });
    };
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (reasons[i].empty()) judged_.push_back(i);
    for (const bool through_time : {true, false})
      for (std::size_t i = 0; judged_.empty() && i < ids.size(); ++i)
        if (alive(i, through_time))
          for (std::size_t k = i; k < ids.size(); ++k)
            if (alive(k, through_time)) judged_.push_back(k);
    if (judged_.empty())
      throw ValueError(
          "rules",
          "the BPTT gradient of every parameter is zero, so nothing can be compared; give another "
          "loss, other inputs or more steps");
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (std::find(judged_.begin(), judged_.end(), i) != judged_.end())
        out_.judged.push_back(to_string(ids[i]));
      else
        out_.left_out.push_back({to_string(ids[i]), reasons[i]});
  }

  void run(const Candidate& p) {
    OnlineRun online(*p.graph, *p.rule, draws_[0].sequences, f_, *step_, o_.backend);
    double seconds_per_step = 0.0;  // as far as it is known
    const auto row = [&](std::int64_t window) {
      const std::string where = window_text(window);
      attempt(p.name, where, [&] { measure(p, online, window, where, seconds_per_step); });
    };
    if (o_.single_step && allows(p, VjpMethod::SingleStep, "single steps")) row(0);
    if (!windows_.empty() && allows(p, VjpMethod::MultiStep, "windows"))
      for (const std::int64_t k : windows_) row(k);
  }

  bool allows(const Candidate& p, VjpMethod method, const char* where) {
    try {
      p.rule->require(method);
      return true;
    } catch (const NotSupportedError& e) {  // says nothing about the model
      out_.refused.push_back({p.name, where, e.message()});
      return false;
    }
  }

  void measure(const Candidate& p, OnlineRun& online, std::int64_t window, const std::string& where,
               double& seconds_per_step) {
    constexpr std::int64_t kQuick = 1 << 20;  // numbers that a step moves in less than it takes to ask
    const auto leave = [&](const std::string& why) {
      out_of_time_ = true;
      out_.not_measured.push_back({p.name, where, why});
    };
    if (!clock_.allows(0.0)) return leave("the time was up");
    online.start_from(draws_[0].model, draws_[0].sequences);
    if (seconds_per_step == 0.0 && o_.seconds && p.numbers > kQuick)
      seconds_per_step = online.seconds_of_one_step(window);
    const int repeats = std::max(o_.repeats, 1);
    const double runs = 1.0 + repeats, expected = seconds_per_step * static_cast<double>(steps_) * runs;
    if (!clock_.allows(expected))
      return leave(fmt::format("a step takes about {}, so this would take {}, and {} are left",
                               seconds_text(seconds_per_step), seconds_text(expected),
                               seconds_text(std::max(0.0, *clock_.left()))));
    const OnlineRun::Timed first = online.timed(window, repeats);
    RuleComparison::Row row;
    row.rule = p.name;
    row.window = window;
    row.traces = first.trace_bytes;
    row.working = online.working_bytes(window);
    row.seconds = first.seconds / static_cast<double>(steps_);
    seconds_per_step = row.seconds;
    Measures all;
    all.parameters.resize(judged_.size());
    row.has_horizon = o_.lags > 0;
    for (std::size_t d = 0; d < draws_.size(); ++d) {
      const double per_draw = d == 0 ? 0.0 : first.seconds;
      if (!clock_.allows(per_draw) && d > 0) break;
      online.start_from(draws_[d].model, draws_[d].sequences);
      add(all, judges_[d], d == 0 ? first.gradients : online.windows(window));
      ++row.draws;
      row.has_horizon = row.has_horizon && clock_.allows(horizon_steps() * row.seconds);
      if (row.has_horizon) add_horizons(all, judges_[d], online, window);
    }
    sum_up(row, all);
    out_.rows.push_back(std::move(row));
    if (o_.on_row) o_.on_row(out_);
  }

  double horizon_steps() const {
    const auto lags = static_cast<double>(out_.lags);
    return 0.5 * lags * lags + 2.0 * static_cast<double>(steps_);
  }

  void add(Measures& all, const Judge& j, const Arrays& gradients) const {
    Doubles cosines;
    for (std::size_t k = 0; k < judged_.size(); ++k) {
      const Judge::Leaf& leaf = j.leaves[judged_[k]];
      if (!leaf.alive) continue;
      const Doubles own = gradients[judged_[k]].tensor().to_doubles();
      const Agreement a = agreement(std::span<const double>(own), std::span<const double>(leaf.gradient));
      cosines.push_back(std::isnan(a.cosine) ? 0.0 : a.cosine);  // no gradient at all is no direction
      all.parameters[k].cosines.push_back(cosines.back());
      all.parameters[k].ratios.push_back(a.norm_ratio);
    }
    if (!cosines.empty()) all.draw_cosines.push_back(mean(cosines));
  }

  void add_horizons(Measures& all, const Judge& j, const OnlineRun& online, std::int64_t window) const {
    const Horizons found = horizons_of(j, online, window, steps_, o_.lags);
    for (std::size_t k = 0; k < judged_.size(); ++k)
      if (j.leaves[judged_[k]].credited) all.parameters[k].horizons.push_back(found[judged_[k]]);
  }

  void sum_up(RuleComparison::Row& row, const Measures& all) const {
    Doubles ratios;
    Horizons horizons;
    row.lowest_cosine = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < judged_.size(); ++k) {
      const Measures::Parameter& p = all.parameters[k];
      RuleComparison::Parameter shown{out_.judged[k], mean(p.cosines), mean(p.ratios), median(p.horizons)};
      if (shown.cosine < row.lowest_cosine) {
        row.lowest_cosine = shown.cosine;
        row.lowest = shown.name;
      }
      ratios.insert(ratios.end(), p.ratios.begin(), p.ratios.end());
      horizons.insert(horizons.end(), p.horizons.begin(), p.horizons.end());
      row.parameters.push_back(std::move(shown));
    }
    row.cosine = mean(all.draw_cosines);
    row.deviation = deviation(all.draw_cosines);
    row.norm_ratio = median(ratios);
    row.horizon = median(std::move(horizons));
  }

  // From the smallest memory on, what is closer than all before it.
  void mark_best() {
    constexpr double kTold = 0.005;  // tables do not tell less apart
    std::vector<std::pair<std::size_t, double>> order;
    for (std::size_t i = 0; i < out_.rows.size(); ++i)
      order.emplace_back(i, out_.distance(out_.rows[i]).total());
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return std::pair(out_.rows[a.first].bytes(), a.second) <
             std::pair(out_.rows[b.first].bytes(), b.second);
    });
    double nearest = std::numeric_limits<double>::infinity();
    for (const auto& [i, distance] : order)
      if (distance < nearest - kTold) {
        out_.rows[i].best = true;
        nearest = distance;
      }
  }

  std::span<const ModelDraw> draws_;
  const StepFunction& f_;
  const CompareOptions& o_;
  std::int64_t steps_;
  Clock clock_;
  std::vector<std::int64_t> windows_;
  std::vector<std::unique_ptr<const ETraceGraph>> graphs_;
  std::optional<StepProgram> step_;
  std::vector<Judge> judges_;        // one per draw
  std::vector<std::size_t> judged_;  // leaves
  RuleComparison out_;
  std::exception_ptr first_error_;
  bool out_of_time_ = false;
};

// Draws differ in the values of parameters and states alone.
void require_same_program(const Model& first, const Model& other) {
  const auto name_of = [](const InputRecord& in) {
    return in.role == Role::Arg ? fmt::format("argument {}", in.index) : state_leaf_name(in);
  };
  for (std::size_t i = 0; i < first.inputs.size(); ++i) {
    const InputRecord& wanted = first.inputs[i];
    const Aval& type = first.program.jaxpr.invars[i].aval;
    if (i >= other.inputs.size() || other.inputs[i].role != wanted.role ||
        other.inputs[i].path != wanted.path || other.inputs[i].leaf != wanted.leaf ||
        other.program.jaxpr.invars[i].aval != type)
      throw ValueError("rules", fmt::format("a draw without {} of type {}: all draws must have one program",
                                            name_of(wanted), to_string(type)));
  }
  if (to_string(first.program.jaxpr) != to_string(other.program.jaxpr) ||
      first.program.consts != other.program.consts)
    throw ValueError(
        "rules",
        "the draws have different equations, though their inputs are alike: all draws must have one "
        "program, with other values of its parameters and states");
}

void check_draws(std::span<const ModelDraw> draws) {
  if (draws.empty()) throw ValueError("rules", "no draw; give at least one model with its sequences");
  for (const ModelDraw& d : draws) {
    require_same_program(draws[0].model, d.model);
    check_sequences("rules", d.sequences);
    bool same = d.sequences.size() == draws[0].sequences.size();
    for (std::size_t i = 0; same && i < d.sequences.size(); ++i)
      same = d.sequences[i].aval() == draws[0].sequences[i].aval();
    if (!same) throw ValueError("rules", "the draws have sequences of different types; they must be alike");
  }
}

}  // namespace

RuleComparison::Distance RuleComparison::distance(const Row& r) const {
  Distance d{std::isnan(r.cosine) ? 2.0 : std::max(0.0, 1.0 - r.cosine), 0.0, 0.0};
  d.size = std::isnan(r.norm_ratio) ? std::log(1e6) : std::abs(std::log(std::max(r.norm_ratio, 1e-6)));
  const auto steps_back = [&](const std::optional<std::int64_t>& h) {
    return std::log(static_cast<double>(h.value_or(lags + 1)));
  };
  if (r.has_horizon) d.horizon = std::abs(steps_back(r.horizon) - steps_back(bptt_horizon));
  return d;
}

std::vector<std::size_t> RuleComparison::frontier() const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].best) out.push_back(i);
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a].bytes() < rows[b].bytes(); });
  return out;
}

RuleComparison compare_rules(std::span<const ModelDraw> draws,
                             std::span<const std::shared_ptr<const LearningRule>> rules,
                             const StepFunction& f, const CompareOptions& o) {
  check_draws(draws);
  return Comparison(draws, f, o)(rules);
}

RuleComparison compare_rules(const Model& model, std::span<const std::shared_ptr<const LearningRule>> rules,
                             ArraySpan sequences, const StepFunction& f, const CompareOptions& o) {
  const ModelDraw draw{model, Arrays(sequences.begin(), sequences.end())};
  return compare_rules(std::span<const ModelDraw>(&draw, 1), rules, f, o);
}

}  // namespace etrace
