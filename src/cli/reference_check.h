// Comparing a model file with what it expects, stage by stage.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "etrace/model_io.h"

namespace etrace::cli {

enum class Stage : std::uint8_t { Forward, Bptt, Graph, Learn };
inline constexpr std::array<Stage, 4> kAllStages{Stage::Forward, Stage::Bptt, Stage::Graph, Stage::Learn};
std::string_view name(Stage);

struct CheckOptions {
  std::string compat;  // "" or "braintrace"
  std::string backend = "interpreter";
};

// Neither set: passed.
struct StageResult {
  std::optional<std::string> failure;  // what, where, by how much
  std::optional<std::string> skipped;  // why nothing, or not all, was compared
};
StageResult run_stage(const Model&, Stage, const CheckOptions&);
StageResult check_graph(const Model&, const CheckOptions&);  // graph_check.cpp
StageResult check_learn(const Model&, const CheckOptions&);  // learn_check.cpp

}  // namespace etrace::cli
