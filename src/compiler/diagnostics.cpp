// Names, meanings and levels of the compiler's decisions, all from etrace/diagnostics.def.
#include "etrace/diagnostics.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "compiler/diagnostic_address.h"

namespace etrace {

namespace {

struct Row {
  DiagnosticKind kind;
  std::string_view enumerator;
  DiagnosticLevel level;
  std::string_view meaning;
};

constexpr std::array kRows{
#define ETRACE_DIAGNOSTIC(kind, level, meaning) \
  Row{DiagnosticKind::kind, #kind, DiagnosticLevel::level, meaning},
#include "etrace/diagnostics.def"
#undef ETRACE_DIAGNOSTIC
};

const Row& row(DiagnosticKind kind) { return kRows.at(static_cast<std::size_t>(kind)); }

}  // namespace

std::string_view name(DiagnosticLevel level) {
  constexpr std::array<std::string_view, 3> kNames{"info", "warning", "error"};
  return kNames.at(static_cast<std::size_t>(level));
}

std::string_view name(DiagnosticKind kind) {
  static const std::array<std::string, kRows.size()> kNames = [] {
    std::array<std::string, kRows.size()> names;
    for (std::size_t i = 0; i < kRows.size(); ++i) {
      names[i] = kRows[i].enumerator;
      std::transform(names[i].begin(), names[i].end(), names[i].begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    }
    return names;
  }();
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string_view meaning(DiagnosticKind kind) { return row(kind).meaning; }
DiagnosticLevel usual_level(DiagnosticKind kind) { return row(kind).level; }

std::vector<DiagnosticKind> all_diagnostic_kinds() {
  std::vector<DiagnosticKind> kinds;
  for (const Row& r : kRows) kinds.push_back(r.kind);
  return kinds;
}

std::string to_string(const CompilationRecord& r) {
  std::string text = std::string(name(r.level)) + " " + std::string(name(r.kind)) + ": " + r.message;
  if (!r.note.empty()) text += " — " + r.note;
  if (const std::string place = to_string(r.origin); !place.empty()) text += " (at " + place + ")";
  text += " [" + diagnostic_address(r.kind) + "]";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void Reporter::emit(CompilationRecord record) { records_.push_back(std::move(record)); }
void Reporter::append(const std::vector<CompilationRecord>& more) {
  records_.insert(records_.end(), more.begin(), more.end());
}

}  // namespace etrace
