// Work in processes of its own, also with other process numbers, mounts and limits.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace etrace::testing {

struct ProcessResult {
  enum Kind { Passed, Failed, NotPermitted } kind = Failed;
  std::string errors;  // what it wrote to stderr
};

// f in `count` processes at once, started together; f(i) is the number of what went wrong. Processes of new
// numbers (CLONE_NEWPID) are number 1 each, as in containers; those of new mounts (CLONE_NEWNS) may mount.
// NotPermitted where the system does not let us.
std::vector<ProcessResult> in_processes(int count, int namespaces, const std::function<int(int)>& f);

}  // namespace etrace::testing
