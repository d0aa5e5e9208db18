// What a run says about the engine that it runs on.
#pragma once

#include <string>

#pragma GCC visibility push(default)
namespace etrace::train {

// "engine auto: interprets at once, …".
std::string engine_text(const std::string& backend);

}  // namespace etrace::train
#pragma GCC visibility pop
