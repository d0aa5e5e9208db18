// Layout of help, and errors of parsing; see the header.
#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/nearest.h"

namespace etrace::cli {

namespace {

constexpr std::size_t kOptionColumn = 27;

const CLI::App* parsed_verb(const CLI::App& app) {
  const auto verbs = app.get_subcommands([](const CLI::App* verb) { return verb->parsed(); });
  return verbs.empty() ? nullptr : verbs.front();
}

std::string surplus_text(const CLI::App& verb) {
  std::vector<std::string> words = verb.remaining();
  const auto option = std::find_if(words.begin(), words.end(),
                                   [](const std::string& w) { return w.starts_with("-") && w != "-"; });
  if (option != words.end()) return unknown_option_text(verb, *option);
  std::sort(words.begin(), words.end());
  return fmt::format("'{}' {} not expected here", fmt::join(words, "', '"), words.size() == 1 ? "is" : "are");
}

}  // namespace

std::string HelpLayout::make_option(const CLI::Option* option, bool is_positional) const {
  return wrapped("  " + make_option_name(option, is_positional) + make_option_opts(option), kOptionColumn,
                 option->get_description());
}

std::string HelpLayout::make_option_opts(const CLI::Option* option) const {
  if (option->get_positional()) return "";
  std::string text = value_text(*option);
  if (!option->get_default_str().empty()) text += " = " + option->get_default_str();
  return text;
}

std::string value_text(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.empty() || type.starts_with("[=") ? type : " " + type;
}

std::string HelpLayout::make_subcommand(const CLI::App* verb) const {
  return wrapped("  " + verb->get_name(), 12, verb->get_description());
}

std::string help_table(std::string_view title, const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t indent = 0;
  for (const auto& row : rows) indent = std::max(indent, row.first.size() + 4);
  std::string text = fmt::format("{}:\n", title);
  for (const auto& [name, doc] : rows) text += wrapped("  " + name, indent, doc);
  return text;
}

// The option that was meant by a word that is none: "--updats=5" -> "--updates".
std::string unknown_option_text(const CLI::App& verb, const std::string& word) {
  const std::string given = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* o : verb.get_options())
    for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
  return fmt::format("there is no option {}{}", given, did_you_mean(given, known));
}

std::string command_of(const CLI::App& app) {
  const CLI::App* verb = parsed_verb(app);
  return verb == nullptr ? app.get_name() : app.get_name() + " " + verb->get_name();
}

std::string error_text(const CLI::App& app, const Error& e) {
  const CLI::App* verb = parsed_verb(app);
  std::string_view what = e.what();
  if (verb != nullptr && e.stage() == verb->get_name())
    what.remove_prefix(e.stage().size() + 3);  // "[train] "
  return fmt::format("{}: {}\n", command_of(app), what);
}

std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& verb = parsed_verb(app) == nullptr ? app : *parsed_verb(app);
  const std::string command = command_of(app);
  std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    what = surplus_text(verb.remaining().empty() ? app : verb);
  // "--lr: 1 required X missing"
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && what.starts_with("--"))
    what = what.substr(0, what.find_first_of(": ")) + " needs a value";
  return fmt::format("{}: {}\n{} --help shows what it takes\n", command, what, command);
}

}  // namespace etrace::cli
