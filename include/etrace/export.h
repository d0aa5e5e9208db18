// A learner as C that stands alone, for devices: no allocation, no library, the optimiser inside.
//
//   auto learner = compile(model, D_RTRL{}, zeros({3}));
//   optim::SGD sgd(model, 0.05);
//   export_learner(learner, loss::mse, sgd, {Dtype::F32, {1}}, {.name = "sensor"}).write("firmware");
//
// writes sensor.c and sensor.h with sensor_init(), sensor_step(x, y) and sensor_step_target(x, target, y).
// They go on from what the learner holds now, and give the bits that Learner::step gives by native code.
// docs/microcontrollers.md shows it on a board. Start with export_learner().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/learner.h"

#pragma GCC visibility push(default)
namespace etrace {

// Where the code runs: what it is compiled with, and the board that `etrace export --check` emulates.
struct ExportTarget {
  std::string_view name, doc;
  std::string_view compiler, flags;    // of the device; empty: any C99 compiler
  std::string_view emulator, machine;  // qemu; empty: this machine
  std::string_view startup, linker;    // files of the project
  bool doubles = true;                 // whether it computes f64 by instructions of its own
};
std::span<const ExportTarget> export_targets();                 // c99 first
const ExportTarget& find_export_target(std::string_view name);  // ValueError lists the names

struct ExportOptions {
  std::string name = "model";  // of the files, and what every name in them begins with
  std::string target = "c99";  // of export_targets()
  bool skip_zeros = false;     // rows of a weight whose input is 0 are left out of products: the same bits
  bool libm = false;           // functions of the C library are allowed, whose last bits are its own
  std::optional<std::int64_t> ram;  // bytes; more is refused, with what would help
};

// What a device needs, in bytes and per step.
struct ExportReport {
  std::int64_t params = 0, states = 0, traces = 0, optimizer = 0, other = 0;  // that are carried on
  std::int64_t scratch = 0;                                                   // values in between
  std::int64_t stack = 0;                            // a bound for the exported functions
  std::int64_t constants = 0;                        // tables and initial values, in flash
  std::int64_t code = 0;                             // in flash, too; an estimate
  std::int64_t multiply_adds = 0, instructions = 0;  // of a step with a target; instructions are an estimate
  std::int64_t step_instructions = 0;                // of a step without one
  std::vector<std::string> notes;
  std::int64_t ram() const { return params + states + traces + optimizer + other + scratch; }
  std::string to_string() const;
};

struct ExportedFile {
  std::string path, text;
};
struct ExportedModel {
  std::string name;
  Avals inputs, outputs;  // of the model
  Aval target;
  std::vector<ExportedFile> files;  // NAME.c and NAME.h first
  ExportReport report;
  // Into a folder, which is made if need be. NAME.c and NAME.h take the place of older ones, but not of files
  // that etrace did not write; files of an example, which are there to be changed, are left as they are, and
  // their paths given back. IoError says what could not be written.
  std::vector<std::string> write(const std::string& folder) const;
};

// The learner with its parameters, states and traces as they are now, for a loss of the model's first result.
// The optimiser's rate is that of its next update; the device may set another. NotSupportedError names an
// operation that has no code for devices; ValueError a budget that is too small.
ExportedModel export_learner(const Learner&, const Loss&, const optim::Optimizer&, const Aval& target,
                             const ExportOptions& = {});

// Some forms of the pass over a trace (many steps at once, many states per slot) have no code for devices and
// are refused. These are the wishes with which a learner (LearnerOptions::trace_passes) does without them, if
// any.
std::vector<TracePassWish> passes_for_devices(const Learner&, const Loss&, const optim::Optimizer&,
                                              const Aval& target);

// Files beside it: `project`, a program that learns from a stream of sensor data, with Makefile, startup code
// and linker script for the target; `arduino`, a library folder with a sketch.
void add_project(ExportedModel&, const ExportTarget&);
void add_arduino(ExportedModel&);

// Runs the exported code beside the native engine on the same random data and compares every bit of losses,
// outputs, parameters, states and traces: on this machine, and on the emulated boards of the targets named.
struct ExportCheckOptions {
  std::int64_t updates = 500;
  std::vector<std::string> targets = {"c99"};
};
struct ExportCheck {
  struct Run {
    std::string target;
    enum class Answer : std::uint8_t { Same, Different, NotRun } answer;
    std::string text;                          // the first difference, or why it did not run
    std::int64_t instructions = 0, stack = 0;  // per step with a target; bytes. 0: not measured
    std::int64_t code_bytes = 0;               // of the exported functions, without constants
  };
  std::vector<Run> runs;
  std::int64_t steps = 0, finite_steps = 0;
  bool same() const;     // all that ran, and at least one did
  bool all_ran() const;  // wherever it was asked for
};
ExportCheck check_export(const Learner&, const Loss&, const optim::Optimizer&, const Aval& target,
                         const ExportOptions& = {}, const ExportCheckOptions& = {});

}  // namespace etrace
#pragma GCC visibility pop
