// Long options of `etrace train` by name and text, as configurations and programs have them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

#include "base/nearest.h"
#include "etrace/error.h"
#include "train/training.h"

namespace etrace::train {

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& expected) {
  throw ValueError("train", fmt::format("{} is '{}'; expected {}", name, value, expected));
}

template <class Number>
Number parsed(const std::string& name, const std::string& value, const std::string& expected) {
  Number out{};
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error != std::errc() || stop != value.data() + value.size()) refuse(name, value, expected);
  return out;
}

std::int64_t whole_of(const std::string& name, const std::string& value, std::int64_t least) {
  const std::string expected = fmt::format("a whole number from {} on", least);
  const auto out = parsed<std::int64_t>(name, value, expected);
  if (out < least) refuse(name, value, expected);
  return out;
}

double number(const std::string& name, const std::string& value, double low,
              double high = std::numeric_limits<double>::max()) {
  const std::string expected = high == std::numeric_limits<double>::max()
                                   ? fmt::format("a number of at least {}", low)
                                   : fmt::format("a number from {} to {}", low, high);
  const auto out = parsed<double>(name, value, expected);
  if (!(out >= low && out <= high)) refuse(name, value, expected);
  return out;
}

bool truth_of(const std::string& name, const std::string& value) {
  if (value != "true" && value != "false") refuse(name, value, "true or false");
  return value == "true";
}

std::optional<std::uint16_t> port_of(const std::string& name, const std::string& value) {
  if (value == "false") return std::nullopt;
  if (value == "true") return 0;
  return parsed<std::uint16_t>(name, value, "true, false or a port, 0 to 65535 (0: a free one)");
}

template <class E>
E word(const std::string& name, const std::string& value,
       const std::vector<std::pair<std::string, E>>& words) {
  std::vector<std::string> known;
  for (const auto& [text, e] : words) {
    if (text == value) return e;
    known.push_back(text);
  }
  refuse(name, value, fmt::format("one of {}{}", fmt::join(known, ", "), did_you_mean(value, known)));
}

void require_pair(const std::string& name, const std::string& value) {
  if (const std::size_t equals = value.find('='); equals == std::string::npos || equals == 0)
    refuse(name, value, "NAME=VALUE");
}

struct Row {
  std::string name;
  std::function<void(RunConfig&, const std::string& name, const std::string& value)> set;
};

// Settings of a task need the task; they are set last.
void keep_for_later(RunConfig&, const std::string& name, const std::string& value) {
  require_pair(name, value);
}

// clang-format off
const std::vector<Row>& rows() {
  using C = RunConfig;
  using T = const std::string;
  static const std::vector<Row> table{
      {"task", [](C& c, T&, T& v) { c.settings.task = v; }},
      {"model", [](C& c, T&, T& v) { c.settings.model = v; }},
      {"layer", [](C& c, T&, T& v) { c.settings.layers.push_back(v); }},
      {"rule", [](C& c, T&, T& v) { c.settings.rule = v; }},
      {"rule-option", [](C& c, T& n, T& v) { require_pair(n, v); c.settings.rule_options.push_back(v); }},
      {"set", keep_for_later},
      {"hidden", [](C& c, T& n, T& v) { c.settings.hidden = whole_of(n, v, 1); }},
      {"batch", [](C& c, T& n, T& v) { c.settings.batch = whole_of(n, v, 1); }},
      {"updates", [](C& c, T& n, T& v) { c.settings.updates = whole_of(n, v, 1); }},
      {"seed", [](C& c, T& n, T& v) { c.settings.seed = parsed<std::uint64_t>(n, v, "a whole number from 0 on"); }},
      {"window", [](C& c, T& n, T& v) { c.settings.window = whole_of(n, v, 1); }},
      {"method", [](C& c, T& n, T& v) {
         c.settings.method = word<VjpMethod>(n, v, {{"single-step", VjpMethod::SingleStep}, {"multi-step", VjpMethod::MultiStep}}); }},
      {"update", [](C& c, T& n, T& v) {
         c.settings.update = word<UpdateEvery>(n, v, {{"sequence", UpdateEvery::Sequence}, {"window", UpdateEvery::Window}, {"step", UpdateEvery::Step}}); }},
      {"optimizer", [](C& c, T&, T& v) { c.settings.optimizer = v; }},
      {"lr", [](C& c, T& n, T& v) { c.settings.learning_rate = number(n, v, 0.0); }},
      {"schedule", [](C& c, T& n, T& v) { c.settings.schedule = word<std::string>(n, v, {{"constant", "constant"}, {"cosine", "cosine"}}); }},
      {"warmup", [](C& c, T& n, T& v) { c.settings.warmup = whole_of(n, v, 0); }},
      {"clip-norm", [](C& c, T& n, T& v) {
         const double limit = number(n, v, 0.0);
         c.settings.clip_norm = limit == 0.0 ? std::nullopt : std::optional(limit); }},
      {"memory", [](C& c, T& n, T& v) { c.settings.memory = number(n, v, 0.0); }},
      {"dtype", [](C& c, T& n, T& v) {
         c.settings.dtype = word<Dtype>(n, v, {{"f32", Dtype::F32}, {"f64", Dtype::F64}, {"float32", Dtype::F32}, {"float64", Dtype::F64}}); }},
      {"backend", [](C& c, T&, T& v) { c.settings.backend = v; }},
      {"runs", [](C& c, T&, T& v) { c.plan.runs = v == "none" ? std::string() : v; }},
      {"name", [](C& c, T&, T& v) { c.plan.name = v; }},
      {"checkpoint", [](C& c, T&, T& v) { c.plan.checkpoint = v; }},
      {"save", [](C& c, T&, T& v) { c.plan.save = v; }},
      {"load", [](C& c, T&, T& v) { c.plan.load = v; }},
      {"json", [](C& c, T&, T& v) { c.plan.json = v; }},
      {"resume", [](C& c, T& n, T& v) { c.plan.resume = truth_of(n, v); }},
      {"live", [](C& c, T& n, T& v) { c.plan.live = port_of(n, v); }},
      {"every", [](C& c, T& n, T& v) { c.plan.every = whole_of(n, v, 1); }},
      {"check-every", [](C& c, T& n, T& v) { c.plan.check_every = whole_of(n, v, 1); }},
      {"patience", [](C& c, T& n, T& v) { c.plan.patience = whole_of(n, v, 0); }},
      {"until-accuracy", [](C& c, T& n, T& v) { c.plan.until_accuracy = number(n, v, 0.0, 1.0); }},
      {"no-fidelity", [](C& c, T& n, T& v) { c.plan.fidelity = !truth_of(n, v); }},
      {"decay", [](C& c, T& n, T& v) { c.settings.rule_options.push_back(fmt::format("decay_or_rank={}", number(n, v, 0.0, 1.0))); }},
      {"rank", [](C& c, T& n, T& v) { c.settings.rule_options.push_back(fmt::format("decay_or_rank={}", whole_of(n, v, 1))); }},
      {"input-decay", [](C& c, T& n, T& v) { c.settings.rule_options.push_back(fmt::format("input_decay_or_rank={}", number(n, v, 0.0, 1.0))); }},
      {"trace-dtype", [](C& c, T&, T& v) { c.settings.rule_options.push_back("trace_dtype=" + v); }},
  };
  return table;
}
// clang-format on

}  // namespace

std::vector<std::string> run_options() { return row_names(rows()); }

RunConfig run_config(const ConfigItems& items) {
  RunConfig out;
  ConfigItems of_task;
  for (const auto& [given, value] : items) {
    std::string name = given;
    std::replace(name.begin(), name.end(), '_', '-');
    const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.name == name; });
    if (row == rows().end()) throw ValueError("train", no_such_name("option", given, run_options()));
    row->set(out, given, value);
    if (name == "set") of_task.emplace_back(given, value);
  }
  take_data(out.settings);
  for (const auto& [name, value] : of_task) {
    const std::size_t equals = value.find('=');
    set_task_option(out.settings, value.substr(0, equals), value.substr(equals + 1));
  }
  return out;
}

}  // namespace etrace::train
