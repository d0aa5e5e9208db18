// etrace train FILE --stream: test-then-train over a stream that never ends.
#pragma once

#include "train/stream_run.h"

namespace etrace::cli {

// What a stream is told about on the terminal goes to standard error if that is for programs.
int run_stream(const train::StreamPlan&, bool quiet);
std::string stream_table();  // for the help

}  // namespace etrace::cli
