// etrace predict RUN FILE: what the best parameters of a run say of new data, as CSV: sample, class, its
// probability, and the label of the file.
#include <fmt/format.h>

#include <iostream>

#include "cli/engine.h"
#include "cli/memory_hint.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "data/text_file.h"
#include "etrace/backend.h"
#include "etrace/train.h"

namespace etrace::cli {

namespace {

struct PredictCommand {
  std::string run, file, output = std::string(kStandardOutput), backend = default_backend();
  bool unlabelled = false;
};

// A cell of a text. What a spreadsheet would take for a formula gets an apostrophe in front, which it does
// not show; numbers are none.
std::string csv_name(const std::string& given) {
  constexpr std::string_view kFormula = "=+-@\t\r";
  double number = 0.0;
  const bool formula = !given.empty() && kFormula.find(given.front()) != std::string_view::npos &&
                       !data::parse_number(given, number);
  const std::string text = formula ? "'" + given : given;
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv_of(const train::Predictions& p) {
  // Samples are called by their file or series, where they have one.
  std::string text = "sample,class,probability,label\n";
  for (std::size_t i = 0; i < p.rows.size(); ++i) {
    const auto& row = p.rows[i];
    text += fmt::format("{},{},{:.6f},{}\n", row.name.empty() ? std::to_string(i) : csv_name(row.name),
                        csv_name(p.classes[row.answer]), row.probability, csv_name(row.label));
  }
  return text;
}

void run_predict(const PredictCommand& c) {
  const train::Predictions p = train::predict(c.run, c.file, c.backend, !c.unlabelled);
  for (const std::string& note : p.notes) std::cerr << fmt::format("etrace predict: {}\n", note);
  write_output(c.output, csv_of(p));
  if (c.output != kStandardOutput && !c.unlabelled)
    std::cout << fmt::format("{} of {} are as the file says\n", p.right, p.rows.size());
}

}  // namespace

void add_predict(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand("predict", "what a trained run says of new data, as CSV");
  auto c = std::make_shared<PredictCommand>();
  verb->add_option("RUN", c->run, "the folder of a run on data")->required();
  verb->add_option("FILE", c->file, "data of the same kind")->required();
  verb->add_option("--csv", c->output, "where to; -: standard output")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_flag("--unlabelled", c->unlabelled,
                 "FILE says no classes: a CSV without the column, WAV files of any name");
  add_backend_option(*verb, c->backend);
  verb->callback([c] { with_memory_hint("give it less data at a time", [&] { run_predict(*c); }); });
}

}  // namespace etrace::cli
