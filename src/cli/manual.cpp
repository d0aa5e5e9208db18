// etrace man, etrace completion: the manual page and the completion of a shell, from the same tables as
// --help.
#include <fmt/format.h>

#include <iostream>
#include <set>

#include "base/nearest.h"
#include "cli/help.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "etrace/version.h"

namespace etrace::cli {

namespace {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  std::cout << fmt::format(text, std::forward<Args>(args)...);
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  std::vector<const CLI::App*> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb);
  return verbs;
}

// Without those of no group, which stand for what is written in another way.
std::vector<const CLI::Option*> told_options(const CLI::App& verb) {
  return verb.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& verb) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : told_options(verb))
    if (!option->get_positional() && !option->get_lnames().empty()) options.push_back(option);
  return options;
}

std::string words_of(const CLI::App& verb) {
  std::vector<std::string> words;
  for (const CLI::Option* option : options_of(verb)) words.push_back("--" + option->get_lnames().front());
  return fmt::format("{}", fmt::join(words, " "));
}

// Text as troff has it: a dash is a minus, a line never begins with a command, a backslash is spelled.
std::string troff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

bool is_help(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return !names.empty() && names.front() == "help";
}

void print_option(const CLI::Option& option) {
  const bool named = !option.get_lnames().empty();
  say(".TP\n\\fB{}\\fR", troff(named ? "--" + option.get_lnames().front() : option.get_name(true)));
  if (named && !value_text(option).empty()) say("\\fI{}\\fR", troff(value_text(option)));
  say("\n{}", troff(option.get_description()));
  if (!option.get_default_str().empty()) say(" (default: {})", troff(option.get_default_str()));
  say("\n");
}

struct Fact {
  const char *name, *meaning;
};
constexpr Fact kEnvironment[] = {
    {"ETRACE_BACKEND", "the engine where none is named: interpreter, native, auto or cuda"},
    {"ETRACE_NUM_THREADS", "threads of the process, the caller counted"},
    {"ETRACE_CACHE_DIR", "where compiled code is kept"},
    {"ETRACE_KEEP_SOURCE", "a folder for the C text of every program that is compiled"},
    {"ETRACE_RUNS", "where run folders are made and looked for, if not in runs"},
    {"ETRACE_DATA", "where `etrace data import` keeps data sets"},
    {"ETRACE_MATMUL_PRECISION", "tf32: products of float32 on a GPU round their factors to TF32"},
    {"CC", "the C compiler that makes native code, if not cc, gcc or clang"},
};
constexpr Fact kStatus[] = {
    {"0", "done"},
    {"1", "done, and the answer is no"},
    {"2", "wrong input, or a result could not be written"},
    {"3", "a fault of the program"},
    {"130", "stopped by Ctrl-C"},
};

void print_man(const CLI::App& app) {
  say(".TH ETRACE 1 \"\" \"etrace {}\" \"User Commands\"\n", version());
  say(".SH NAME\netrace \\- compile recurrent and spiking networks into learners that learn online\n");
  say(".SH SYNOPSIS\n.B etrace\n.I VERB\n[options]\n.SH VERBS\n");
  for (const CLI::App* verb : verbs_of(app)) {
    say(".SS etrace {}\n{}\n", troff(verb->get_name()), troff(verb->get_description()));
    for (const CLI::Option* option : told_options(*verb))
      if (!is_help(*option)) print_option(*option);
  }
  say(".SH ENVIRONMENT\n");
  for (const Fact& f : kEnvironment) say(".TP\n\\fB{}\\fR\n{}\n", f.name, troff(f.meaning));
  say(".SH EXIT STATUS\n");
  for (const Fact& f : kStatus) say(".TP\n\\fB{}\\fR\n{}\n", f.name, troff(f.meaning));
}

// Text in a cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*' || c == '_') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void print_markdown(const CLI::App& app) {
  say("# Command line\n\nThis page shows what `etrace --help` and `etrace VERB --help` say. `etrace man "
      "--markdown` writes it; `man etrace` shows the same as a manual page.\n");
  std::set<std::string> told;
  for (const CLI::App* verb : verbs_of(app)) {
    say("\n## etrace {}\n\n{}\n\n", verb->get_name(), cell(verb->get_description()));
    std::string rows;
    for (const CLI::Option* option : told_options(*verb)) {
      if (is_help(*option)) continue;
      const bool named = !option->get_lnames().empty();
      const std::string& value = option->get_default_str();
      rows += fmt::format("| `{}{}` | {}{} |\n",
                          named ? "--" + option->get_lnames().front() : option->get_name(true),
                          named ? value_text(*option) : "", cell(option->get_description()),
                          value.empty() ? "" : " (default: " + cell(value) + ")");
    }
    if (!rows.empty()) say("| option | meaning |\n|---|---|\n{}", rows);
    const std::string footer = verb->get_footer();  // lists that several verbs have are told once
    if (!footer.empty() && told.insert(footer).second)
      say("\n```text\n{}\n```\n", footer.substr(footer.find_first_not_of('\n')));
  }
  say("\n## Environment\n\n| variable | meaning |\n|---|---|\n");
  for (const Fact& f : kEnvironment) say("| `{}` | {} |\n", f.name, cell(f.meaning));
  say("\n## Exit status\n\n| status | meaning |\n|---|---|\n");
  for (const Fact& f : kStatus) say("| {} | {} |\n", f.name, cell(f.meaning));
}

void print_bash(const CLI::App& app) {
  say("# bash completion of etrace {}\n_etrace() {{\n", version());
  say("  local word=${{COMP_WORDS[COMP_CWORD]}} options=\n");
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(app)) names.push_back(verb->get_name());
  say("  if ((COMP_CWORD == 1)); then\n    mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$word\")\n",
      fmt::join(names, " "));
  say("    return\n  fi\n  case ${{COMP_WORDS[1]}} in\n");
  for (const CLI::App* verb : verbs_of(app))
    say("    {}) options='{}' ;;\n", verb->get_name(), words_of(*verb));
  say("  esac\n  if [[ $word == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
      "  else\n    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n  fi\n}}\n"
      "complete -o filenames -F _etrace etrace\n");
}

std::string quoted(std::string text) {  // for zsh and fish: within single quotes
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4)
    text.replace(at, 1, "'\\''");
  return text;
}

void print_zsh(const CLI::App& app) {
  say("#compdef etrace\n# zsh completion of etrace {}\n_etrace() {{\n", version());
  say("  if ((CURRENT == 2)); then\n    local -a verbs=(\n");
  for (const CLI::App* verb : verbs_of(app))
    say("      '{}:{}'\n", verb->get_name(), quoted(verb->get_description()));
  say("    )\n    _describe verb verbs\n    return\n  fi\n  local -a options\n  case $words[2] in\n");
  for (const CLI::App* verb : verbs_of(app))
    say("    {}) options=({}) ;;\n", verb->get_name(), words_of(*verb));
  say("  esac\n  if [[ $PREFIX == -* ]]; then compadd -a options; else _files; fi\n}}\n_etrace \"$@\"\n");
}

void print_fish(const CLI::App& app) {
  say("# fish completion of etrace {}\n", version());
  for (const CLI::App* verb : verbs_of(app)) {
    say("complete -c etrace -f -n __fish_use_subcommand -a '{}' -d '{}'\n", verb->get_name(),
        quoted(verb->get_description()));
    for (const CLI::Option* option : options_of(*verb))
      say("complete -c etrace -n '__fish_seen_subcommand_from {}' -l '{}' -d '{}'\n", verb->get_name(),
          option->get_lnames().front(), quoted(option->get_description()));
  }
}

struct Shell {
  const char* name;
  void (*print)(const CLI::App&);
};
constexpr Shell kShells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

void print_completion(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const Shell& shell : kShells) {
    if (name == shell.name) return shell.print(app);
    names.emplace_back(shell.name);
  }
  throw ValueError("completion", no_such_name("shell", name, names));
}

}  // namespace

void add_manual(CLI::App& app, Status&) {
  CLI::App* manual = app.add_subcommand("man", "the manual page, as troff: etrace man | man -l -");
  auto markdown = std::make_shared<bool>(false);
  manual->add_flag("--markdown", *markdown,
                   "the same as Markdown, with what the help lists below its options");
  manual->callback([&app, markdown] { *markdown ? print_markdown(app) : print_man(app); });
  CLI::App* verb =
      app.add_subcommand("completion", "completion for a shell: source <(etrace completion bash)");
  auto shell = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  verb->callback([&app, shell] { print_completion(app, *shell); });
}

}  // namespace etrace::cli
