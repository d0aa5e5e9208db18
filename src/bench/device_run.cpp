#include "bench/device_run.h"

#include <algorithm>
#include <chrono>

#include "bench/workloads.h"
#include "etrace/backend.h"
#include "etrace/error.h"

namespace etrace::bench {

namespace device_run {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

RuleOptions options_of(const DeviceRow& row) {
  RuleOptions options;
  if (row.rule == "pp_prop") options.set("decay_or_rank", 0.99);
  return options;
}
LearnerOptions learner_options(const DeviceRow& row) {
  LearnerOptions how;
  how.batch_size = row.batch;
  how.execution_window = row.window;
  how.backend = "interpreter";  // nothing runs on it
  return how;
}

// A workload, its learner and the program of one window.
struct Made {
  explicit Made(const DeviceRow& row)
      : w(workload(row.work, row.batch, row.units)),
        rule(make_rule(row.rule, options_of(row))),
        learner(compile(*w.model, row.rule, Arrays{w.example}, learner_options(row), options_of(row))) {
    const Avals slices{w.example.aval(), {Dtype::F32, w.targets(2, 1).shape().without(0)}};
    const PlanBuilder builder(learner.graph(), *rule, VjpMethod::SingleStep);
    const StepFunction step = [](StepCall& model, ArraySpan s) {
      return LossAndAux{loss::mse(model(s[0]), s[1])};
    };
    WindowForm form;
    form.steps = row.window;
    program = lean(builder.window(builder.objective(step, slices), slices, form));
  }
  Workload w;
  std::shared_ptr<const LearningRule> rule;
  Learner learner;
  Program program;
};

// A program with buffers of its own on the device.
class OnDevice {
 public:
  OnDevice(const Backend& b, Program p)
      : memory_(*b.memory()), program_(std::move(p)), code_(b.compile(program_)) {
    for (const Port& port : program_.arguments) {
      buffers_.push_back(memory_.allocate(port.aval.bytes()));
      in_.push_back(buffers_.back().get());
      give(in_.size() - 1, Tensor::zeros(port.aval));
    }
    for (std::size_t i = 0; i < program_.results.size(); ++i) {
      const auto alias = std::find_if(program_.aliases.begin(), program_.aliases.end(),
                                      [&](const Alias& a) { return a.result == i; });
      if (alias != program_.aliases.end()) {
        out_.push_back(buffers_[alias->argument].get());
        continue;
      }
      results_.push_back(memory_.allocate(program_.results[i].aval.bytes()));
      out_.push_back(results_.back().get());
    }
  }
  const Program& program() const { return program_; }
  void give(std::size_t argument, const Tensor& value) {
    ETRACE_CHECK(value.aval() == program_.arguments[argument].aval);
    memory_.upload(buffers_[argument].get(), value.bytes(), value.aval().bytes());
  }
  // Seconds of one launch: the median of several series.
  double seconds(double least) const {
    for (int i = 0; i < 3; ++i) code_->run(in_.data(), out_.data());
    code_->wait();
    const double start = now();
    code_->run(in_.data(), out_.data());
    code_->wait();
    const double once = std::max(now() - start, 1e-6);
    constexpr int kSeries = 9;
    const int launches = std::clamp(static_cast<int>(least / kSeries / once), 1, 2000);
    std::vector<double> times;
    for (int s = 0; s < kSeries; ++s) {
      const double begin = now();
      for (int i = 0; i < launches; ++i) code_->run(in_.data(), out_.data());
      code_->wait();
      times.push_back((now() - begin) / launches);
    }
    std::sort(times.begin(), times.end());
    return times[kSeries / 2];
  }

 private:
  const DeviceMemory& memory_;
  const Program program_;
  const std::shared_ptr<const Runnable> code_;
  std::vector<std::shared_ptr<void>> buffers_, results_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

const Backend& device_backend(const std::string& name) {
  const Backend& b = find_backend(name);
  if (b.memory() == nullptr)
    throw ValueError("bench", "the backend " + name + " has no memory of its own; try --backend cuda");
  return b;
}

}  // namespace
}  // namespace device_run

using device_run::Made, device_run::OnDevice;

const std::vector<DeviceRow>& device_rows() {
  static const std::vector<DeviceRow> rows{
      {"W1", "W1", "D_RTRL", 1, 0, 64, 8},        {"W1", "W1", "D_RTRL", 1, 0, 1, 0},
      {"W1", "W1", "D_RTRL", 32, 0, 32, 15},      {"W1", "W1", "D_RTRL", 32, 0, 128, 15},
      {"W2", "W2", "D_RTRL", 32, 0, 32, 45},      {"W2", "W2", "D_RTRL", 32, 0, 128, 45},
      {"W3", "W3", "D_RTRL", 32, 512, 32, 20},    {"W3", "W3", "D_RTRL", 32, 512, 128, 20},
      {"W4", "W3", "D_RTRL", 32, 2048, 32, 80},   {"W4", "W3", "D_RTRL", 32, 2048, 64, 80},
      {"W4", "W3", "D_RTRL", 32, 2048, 128, 80},  {"W4", "W3", "D_RTRL", 32, 2048, 1, 0},
      {"W3", "W3", "pp_prop", 128, 512, 32, 20},  {"W3", "W3", "pp_prop", 128, 512, 128, 20},
      {"W4", "W3", "pp_prop", 128, 2048, 32, 45}, {"W4", "W3", "pp_prop", 128, 2048, 128, 45},
  };
  return rows;
}

Program window_program(const DeviceRow& row) { return Made(row).program; }

DeviceMeasured measure_on_device(const DeviceRow& row, const std::string& backend, double least_seconds) {
  Made made(row);
  DeviceMeasured out;
  for (const Port& p : made.program.arguments)
    if (p.role == PortRole::Trace) out.trace_bytes += p.aval.bytes();
  const double start = device_run::now();
  OnDevice run(device_run::device_backend(backend), made.program);
  out.compile_seconds = device_run::now() - start;
  const ModelPlan plan(made.learner.graph().module_info.model);
  for (std::size_t i = 0; i < run.program().arguments.size(); ++i) {
    const Port& p = run.program().arguments[i];
    for (const auto* list : {&plan.params(), &plan.states()})
      for (const ModelPlan::Start& s : *list)
        if (s.port.role == p.role && s.port.name == p.name) run.give(i, s.value);
    if (p.role == PortRole::Weight) run.give(i, Tensor::full(p.aval, 1.0));
    if (p.role == PortRole::Slice) {
      const Array data = p.name == "slice0" ? made.w.inputs(1, row.window) : made.w.targets(2, row.window);
      run.give(i, data.aval() == p.aval ? data.tensor() : reshape(data, p.aval.shape.to_dims()).tensor());
    }
  }
  out.seconds_per_step = run.seconds(least_seconds) / static_cast<double>(row.window);
  return out;
}

double device_update_rate(const std::string& backend, std::size_t bytes) {
  const Aval type{Dtype::F32, {static_cast<std::int64_t>(bytes / 4)}};
  Program p{"update",
            make_jaxpr([](ArraySpan x) { return Arrays{x[0] * 0.5 + 0.25}; }, Avals{type}),
            {{"x", PortRole::State, type}},
            {{"x", PortRole::State, type}},
            {{0, 0}}};
  OnDevice run(device_run::device_backend(backend), std::move(p));
  return 2.0 * static_cast<double>(bytes) / run.seconds(0.2);
}

}  // namespace etrace::bench
