// Formatting of errors and origins.
#include "etrace/error.h"

namespace etrace {

std::string to_string(const Origin& origin) {
  std::string text;
  for (const std::string& part : origin.module) text += (text.empty() ? "" : ".") + part;
  if (origin.file.empty()) return text;
  const std::string place = origin.file + ":" + std::to_string(origin.line);
  return text.empty() ? place : text + " (" + place + ")";
}

static std::string compose(const std::string& stage, const std::string& message, const Origin& origin) {
  std::string text = "[" + stage + "] " + message;
  if (!origin.empty()) text += " (at " + to_string(origin) + ")";
  return text;
}

Error::Error(std::string stage, std::string message, Origin origin)
    : std::runtime_error(compose(stage, message, origin)),
      stage_(std::move(stage)),
      message_(std::move(message)),
      origin_(std::move(origin)) {}

void internal_error(const char* condition, const char* file, int line) {
  throw InternalError("internal",
                      std::string("violated invariant: ") + condition +
                          "; this is a bug in etrace, please report it with the program that caused it",
                      Origin{{}, file, line});
}

}  // namespace etrace
