// Every decision of the compiler is a record: kinds are for programs, messages for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/ir.h"
#include "etrace/model_io.h"

#pragma GCC visibility push(default)
namespace etrace {

enum class DiagnosticLevel : std::uint8_t { Info, Warning, Error };  // ordered by severity
enum class DiagnosticKind : std::uint8_t {
#define ETRACE_DIAGNOSTIC(kind, level, meaning) kind,
#include "etrace/diagnostics.def"
#undef ETRACE_DIAGNOSTIC
};
std::string_view name(DiagnosticLevel);    // "info"
std::string_view name(DiagnosticKind);     // "relation_included"
std::string_view meaning(DiagnosticKind);  // one line
DiagnosticLevel usual_level(DiagnosticKind);
std::vector<DiagnosticKind> all_diagnostic_kinds();

struct CompilationRecord {
  DiagnosticKind kind;
  DiagnosticLevel level;
  std::string message;
  std::string primitive;  // name of the operator it is about; may be empty
  std::optional<StatePath> weight_path;
  std::vector<StatePath> hidden_paths;
  Attr::Dict context;  // plain data; what each kind holds is in docs/diagnostics.md
  std::string note;    // what to do
  Origin origin;
};
std::string to_string(const CompilationRecord&);  // one line: level, kind, message, note

// Collects records; passed explicitly to every pass.
class Reporter {
 public:
  void emit(CompilationRecord record);
  const std::vector<CompilationRecord>& records() const { return records_; }
  void append(const std::vector<CompilationRecord>& more);

 private:
  std::vector<CompilationRecord> records_;
};

// What the compiler throws: the error and the records made until then.
template <class Base>
struct WithRecords : Base {
  WithRecords(const Base& error, std::vector<CompilationRecord> made)
      : Base(error), records(std::move(made)) {}
  std::vector<CompilationRecord> records;
};

}  // namespace etrace
#pragma GCC visibility pop
