// etrace: the command line. Status 0: done; 1: done, and the answer is no (a comparison failed, a goal was
// not reached); 2: what was given is not right, or a result could not be written, said in one line; 3: a
// fault of ours.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <new>
#include <string_view>

#include "base/nearest.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/train_config.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "etrace/version.h"
#include "runtime/thread_pool.h"
#include "train/many_runs.h"

namespace etrace::cli {

extern const std::string_view kNotice, kLicence;  // the files NOTICE and LICENSE, put in by the build

namespace {

// `etrace help train` is `etrace train --help`. A word in the verb's place that is no verb is refused here:
// CLI11 would only say that a verb is missing.
std::vector<std::string> understood(const CLI::App& app, std::vector<std::string> words) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  const auto refuse = [](const std::string& text) {
    throw CLI::ParseError(text, CLI::ExitCodes::ExtrasError);
  };
  if (words.empty()) refuse(fmt::format("a verb is missing; there are: {}", fmt::join(verbs, ", ")));
  if (words.front() == "help") {
    words.erase(words.begin());
    words.resize(std::min<std::size_t>(words.size(), 1));
    words.emplace_back("--help");
  }
  if (words.front().starts_with("-") && app.get_option_no_throw(words.front()) == nullptr)
    refuse(unknown_option_text(app, words.front()));
  if (!words.front().starts_with("-") && std::find(verbs.begin(), verbs.end(), words.front()) == verbs.end())
    refuse(no_such_name("verb", words.front(), verbs));
  return words;
}

void add_verbs(CLI::App& app, Status& status) {
  add_demo(app, status);
  add_explain(app, status);
  add_summary(app, status);
  add_verify(app, status);
  add_rules(app, status);
  add_plan(app, status);
  add_profile(app, status);
  add_train(app, status);
  add_eval(app, status);
  add_predict(app, status);
  add_runs(app, status);
  add_data(app, status);
  add_export(app, status);
  add_check(app, status);
  add_bench(app, status);
  add_bench_accuracy(app, status);
  add_doctor(app, status);
  add_print(app, status);
  add_ops(app, status);
  add_manual(app, status);
  for (CLI::App* verb : app.get_subcommands({})) verb->group("Verbs");
}

int run(const std::vector<std::string>& given) {
  CLI::App app{"etrace: compiles recurrent and spiking networks into learners that learn online", "etrace"};
  app.formatter(std::make_shared<HelpLayout>());
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.set_version_flag("--version", std::string(version()));
  app.add_flag_callback(
         "--licences", [] { throw CLI::CallForVersion(fmt::format("{}\n{}", kNotice, kLicence), 0); },
         "Display the licences of etrace and of what is compiled into it, and exit")
      ->configurable(false);
  app.require_subcommand(1);
  // What the environment asks for is looked at before any work.
  app.parse_complete_callback([] { default_threads(); });
  Status status;
  try {
    add_verbs(app, status);
    app.footer("etrace VERB --help tells what a verb takes.");
    std::vector<std::string> words = with_configuration(understood(app, given));
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    app.parse(std::move(words));
  } catch (const CLI::Success& e) {  // help, version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::cerr << parse_error_text(app, e);
    return 2;
  } catch (const InternalError& e) {
    std::cerr << error_text(app, e);
    return 3;
  } catch (const Error& e) {
    std::cerr << error_text(app, e);
    return 2;
  } catch (const std::bad_alloc&) {
    std::cerr << command_of(app) << ": out of memory\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << command_of(app) << ": unexpected: " << e.what() << "\n";
    return 3;
  }
  return status.code;
}

}  // namespace

}  // namespace etrace::cli

int main(int argc, char** argv) {
  // A file at the limit of its size is an error like a full disk, and not the end without a word.
  std::signal(SIGXFSZ, SIG_IGN);
  if (!etrace::train::keep_with_starter()) return 2;
  const int code = etrace::cli::run({argv + 1, argv + argc});
  const bool answered = code == 0 || code == 1;
  return !etrace::cli::finish_standard_output() && answered ? 2 : code;
}
