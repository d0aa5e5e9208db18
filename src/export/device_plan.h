// The two programs of a device, and what they carry on from call to call. Private to export/.
#pragma once

#include "emit/program.h"
#include "etrace/export.h"
#include "etrace/program.h"
#include "etrace/trace_passes.h"

#pragma GCC visibility push(default)
namespace etrace::device {

// What stays from call to call: one array for all programs that have a port of this role and name.
struct Carried {
  Port port;
  Tensor value;           // at the start
  bool constant = false;  // no program writes it
};
struct Labels {  // of classes, which are looked at before a step
  std::size_t slice;
  std::int64_t classes;
};

struct DevicePlan {
  Program evolve, learn;  // results in place of arguments; nothing is exchanged
  Avals inputs, outputs;  // of the model
  Aval target;
  std::vector<Carried> carried;
  std::vector<Labels> labels;

  const Carried* find(const Port&) const;  // null: it comes and goes with a call

  // Passes over traces whose kernel's bits emitted code would not have.
  std::vector<TracePass> without_code() const;
  void require_code() const;  // NotSupportedError if there are such passes, or other operations like them
};

DevicePlan plan_device(const Learner&, const Loss&, const optim::Optimizer&, const Aval& target);

}  // namespace etrace::device
#pragma GCC visibility pop
