// etrace: the command line. Errors of etrace are printed as one line and end with status 1; wrong usage ends
// with 2.
#include <iostream>

#include "cli/verbs.h"
#include "etrace/error.h"
#include "etrace/version.h"

int main(int argc, char** argv) {
  using namespace etrace;
  CLI::App app{"etrace: compiles recurrent and spiking networks into learners that learn online"};
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  cli::Status status;
  cli::add_print(app, status);
  cli::add_ops(app, status);
  cli::add_check(app, status);
  cli::add_explain(app, status);
  cli::add_train(app, status);
  cli::add_verify(app, status);
  cli::add_demo(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;  // 0: help, version
  } catch (const Error& e) {
    std::cerr << "etrace: " << e.what() << "\n";
    return 1;
  } catch (const std::exception& e) {
    std::cerr << "etrace: unexpected: " << e.what() << "\n";
    return 2;
  }
  return status.code;
}
