// A learner as Python holds it.
#pragma once

#include <atomic>

#include "bind.h"
#include "gil.h"
#include "recording.h"

namespace etrace::python {

void show_warnings();  // in host.cpp: those that came meanwhile

// The learner and who is using it. Results of steps hold it, too; the Python object may go.
struct Core {
  explicit Core(Learner&& l) : learner(std::move(l)) {}
  Learner learner;
  std::atomic<const void*> user{nullptr};  // a mark of the thread that is at it
};

// One learner, one thread at a time: et.Error for a second one, NotSupportedError for a function that the
// learner is recording and that calls it.
class Use {
 public:
  explicit Use(Core&);
  ~Use() { core_.user.store(nullptr, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  Core& core_;
};
// For reading: allowed to functions that the learner is recording.
void require_no_other_thread(const Core&);

struct LearnerObject {
  std::shared_ptr<Core> core;
  // Of bind_step: the loss, which is recorded when the first target comes, and the optimiser, which must live
  // until the last step.
  nb::object loss;
  std::shared_ptr<optim::Optimizer> optimizer;
  // What step() gives, one object for each kind of step; it is overwritten by the next one.
  nb::object evolved, learned;
  nb::object rule;             // where it is written in Python: its functions are recorded with every program
  NamedTensors rule_arrays{};  // its arrays, as the learner has them
  nb::object rule_numbers{};   // what else it holds, which programs have as constants
  double step_seconds = 0.0;   // of a step, lately
  Dtype working = Dtype::F32;  // what the model computes with
};

// Data for a model that computes in `working`: floats of other libraries get that width, arrays of ours stay.
Array adapted(nb::handle, Dtype working);

// A rule written in Python may have changed its arrays: the learner gets them. ValueError for what cannot
// change.
void follow_rule(LearnerObject&);

// A call that may take long: the GIL is free meanwhile, and the functions that may be called back are known.
class LongCall {
 public:
  explicit LongCall(LearnerObject& l) : use_(*l.core) {
    prepare(call, l);
    follow_rule(l);
  }
  static void prepare(Call& call, const LearnerObject& l) {
    call.learner = l.core.get();
    if (l.rule.is_valid()) call.rules.push_back(l.rule);
  }
  Call call;
  template <class F>
  auto run(F&& f) {
    if constexpr (std::is_void_v<decltype(f())>) {
      {
        const Released free;
        f();
      }
      show_warnings();
    } else {
      auto result = [&] {
        const Released free;
        return f();
      }();
      show_warnings();
      return result;
    }
  }

 private:
  Use use_;
};

// A modulator of which the axes are said.
struct ModulatorOver {
  StepInput value;
  GroupModulator::Over over;
};
StepInput step_input(nb::handle, Dtype working);
std::vector<StepInput> step_inputs(nb::handle list, Dtype working);
void bind_steps(nb::class_<LearnerObject>&, nb::module_&);  // step.cpp
void bind_learner_files(nb::class_<LearnerObject>&);        // files.cpp
void bind_learner_views(nb::class_<LearnerObject>&);        // graph.cpp

}  // namespace etrace::python
