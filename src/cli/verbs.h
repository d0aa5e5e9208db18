// The verbs of the command line, one file each. A verb adds its options to the app and sets the exit status.
#pragma once

#include <CLI/CLI.hpp>

namespace etrace::cli {

struct Status {
  int code = 0;
};

void add_print(CLI::App&, Status&);
void add_summary(CLI::App&, Status&);
void add_ops(CLI::App&, Status&);
void add_check(CLI::App&, Status&);
void add_explain(CLI::App&, Status&);
void add_train(CLI::App&, Status&);
void add_eval(CLI::App&, Status&);
void add_runs(CLI::App&, Status&);
void add_predict(CLI::App&, Status&);
void add_data(CLI::App&, Status&);
void add_verify(CLI::App&, Status&);
void add_rules(CLI::App&, Status&);
void add_plan(CLI::App&, Status&);
void add_profile(CLI::App&, Status&);
void add_demo(CLI::App&, Status&);
void add_bench(CLI::App&, Status&);
void add_bench_accuracy(CLI::App&, Status&);
void add_doctor(CLI::App&, Status&);
void add_manual(CLI::App&, Status&);  // man, completion
void add_export(CLI::App&, Status&);

}  // namespace etrace::cli
