// Texts of the command line: how help is laid out, tables at its foot, and what is said about a command that
// cannot be understood.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "base/wrap.h"
#include "etrace/error.h"

namespace etrace::cli {

// Options with their placeholder and default, descriptions wrapped to 100 columns.
class HelpLayout : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option*, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option*) const override;
  std::string make_subcommand(const CLI::App*) const override;
};

// "Losses:\n  mse   mean squared error\n …", from rows with a name and a doc.
std::string help_table(std::string_view title, const std::vector<std::pair<std::string, std::string>>& rows);
template <class Rows>
std::string help_table(std::string_view title, const Rows& rows) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& row : rows) texts.emplace_back(row.name, row.doc);
  return help_table(title, texts);
}

// What follows the name of an option that takes a value: " NAME", or "[=PORT]" where it may be left out.
std::string value_text(const CLI::Option&);

// "there is no option --jsn (did you mean --json?)"
std::string unknown_option_text(const CLI::App&, const std::string& word);
// "etrace train", or "etrace" before a verb is understood.
std::string command_of(const CLI::App&);
// "etrace train: MESSAGE"; a stage that is the verb's own name is not repeated.
std::string error_text(const CLI::App&, const Error&);
// What is wrong with the command, and which word was probably meant.
std::string parse_error_text(const CLI::App&, const CLI::ParseError&);

}  // namespace etrace::cli
