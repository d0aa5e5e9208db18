// etrace: the command line. Status 0: done; 1: done, and the answer is no (a comparison failed, a goal was
// not reached); 2: what was given is not right, said in one line; 3: a fault of ours.
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
  } catch (const InternalError& e) {
    std::cerr << "etrace: " << e.what() << "\n";
    return 3;
  } catch (const Error& e) {
    std::cerr << "etrace: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "etrace: unexpected: " << e.what() << "\n";
    return 3;
  }
  return status.code;
}
