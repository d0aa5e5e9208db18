// A log for programs: one JSON object per line, in one or several files.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::train {

class JsonLines {
 public:
  // `key`: the member that says how far a line is, a whole number. It must live on.
  explicit JsonLines(const char* key) : key_(key) {}

  // "-" is standard output. What goes on keeps the lines up to `resumed_after` and drops the rest, which is
  // done again. IoError if the file cannot be written, ValueError if it is to go on and is no such log.
  void add(const std::string& path, std::optional<std::int64_t> resumed_after);
  // IoError if it could not be written. Lines are whole: a process that is killed leaves no parts.
  void write(const std::string& json);
  bool empty() const { return places_.empty(); }

 private:
  struct Place {
    std::string path;
    std::ofstream file;  // closed: standard output
  };
  const char* key_;
  std::vector<Place> places_;
};

}  // namespace etrace::train
#pragma GCC visibility pop
