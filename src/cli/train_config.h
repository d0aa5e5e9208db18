// Words of the command line from configurations: `etrace train --config FILE` and `etrace train RUN
// --resume`.
#pragma once

#include <string>
#include <vector>

namespace etrace::cli {

// The words with those of the configuration before them, so that what is typed holds. Other verbs and
// commands without a configuration come back as they are.
std::vector<std::string> with_configuration(const std::vector<std::string>& words);

// The words as they were typed, without the program, and whether an option is among them.
const std::vector<std::string>& typed_words();
bool is_typed(const std::string& option);

}  // namespace etrace::cli
