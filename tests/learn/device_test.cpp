// A backend whose memory the host may not touch: what a session does on it has the bits of the interpreter,
// and only what is asked for crosses over.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "etrace/backend.h"
#include "etrace/synthetic_gradient.h"
#include "learn/run/score_run.h"
#include "learn/scenario.h"
#include "session/program_run.h"

namespace etrace {
namespace {

using namespace testing;

// Pages without any right, but for the time of a copy or a launch: a look from elsewhere ends the test.
class GuardedMemory final : public DeviceMemory {
 public:
  std::shared_ptr<void> allocate(std::size_t bytes) const override {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)),
                      size = (bytes / page + 1) * page;
    void* at = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    regions_[at] = size;
    ++allocations;
    return {at, [this, size](void* p) {
              regions_.erase(p);
              ::munmap(p, size);
            }};
  }
  void upload(void* to, const void* from_host, std::size_t bytes) const override {
    const Open open(*this);
    std::memcpy(to, from_host, bytes);
    uploaded += bytes;
  }
  void clear(void* at, std::size_t bytes) const override {
    const Open open(*this);
    std::memset(at, 0, bytes);
  }
  void download(void* to_host, const void* from, std::size_t bytes) const override {
    const Open open(*this);
    std::memcpy(to_host, from, bytes);
    downloaded += bytes;
  }

  // The memory may be touched for as long as it lives.
  class Open {
   public:
    explicit Open(const GuardedMemory& m) : m_(m) { m_.protect(PROT_READ | PROT_WRITE); }
    ~Open() { m_.protect(PROT_NONE); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    const GuardedMemory& m_;
  };
  void forget_counts() const { uploaded = downloaded = allocations = 0; }
  mutable std::size_t uploaded = 0, downloaded = 0, allocations = 0;

 private:
  void protect(int rights) const {
    for (const auto& [at, size] : regions_)
      if (::mprotect(at, size, rights) != 0) throw std::bad_alloc();
  }
  mutable std::map<void*, std::size_t> regions_;
};

class GuardedDevice final : public Backend {
 public:
  std::string_view name() const override { return "test-device"; }
  std::string_view doc() const override { return "the interpreter on memory that the host may not touch"; }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    return std::make_shared<Code>(memory_, find_backend("interpreter").compile(p));
  }
  const GuardedMemory* memory() const override { return &memory_; }

 private:
  struct Code final : Runnable {
    Code(const GuardedMemory& m, std::shared_ptr<const Runnable> c) : memory(m), code(std::move(c)) {}
    void run(const void* const* arguments, void* const* results) const override {
      const GuardedMemory::Open open(memory);
      code->run(arguments, results);
    }
    std::size_t arena_bytes() const override { return code->arena_bytes(); }
    const GuardedMemory& memory;
    std::shared_ptr<const Runnable> code;
  };
  GuardedMemory memory_;
};
const GuardedDevice kDevice;
const RegisterBackend kDeviceRow(kDevice);

const Array kInputs11 = Random(1).f64({11, 2, 3}), kTargets11 = Random(2).f64({11, 2, 4});

// What a learner leaves after gradients, training, evolving, steps by the host and a checkpoint.
Tensors everything(const std::string& backend) {
  Tensors out;
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = backend});
  optim::Adam adam(net, 1e-2, {}, {.clip_norm = 1.0});
  const auto add = [&](ArraySpan all) {
    for (const Array& a : all) out.push_back(a.tensor());
  };
  add(learner.etrace_grad(kInputs11, kTargets11, loss::mse).grads.values);
  add(Arrays{
      learner.etrace_train(kInputs11, kTargets11, loss::mse, adam, {{}, UpdateEvery::Window, 4}).losses});
  add(learner.etrace_evolve(Arrays{kInputs11}));
  add(Arrays{net.w.value(), net.v.value()});
  net.w.set(net.w.value() * 0.5);
  learner.bind_step(loss::mse, &adam);
  for (std::int64_t t = 0; t < 3; ++t) add(learner.step(item(kInputs11, t), item(kTargets11, t)).results);
  for (const EligibilityTrace& e : learner.etraces()) add(Arrays{e.value});
  add(learner.solve(Arrays{ones({2, 4, 1}, Dtype::F64)}).values);
  for (const auto& [name, value] : learner.checkpoint(&adam).tensors) out.push_back(value);
  learner.reset_state();
  add(learner.etrace_grad(kInputs11, kTargets11, loss::mse).grads.values);
  return out;
}

TEST(Device, ALearnerHasTheSameBits) {
  const Tensors found = everything("test-device"), expected = everything("interpreter");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], expected[i]) << i;
}

TEST(Device, StepsCarryNothingOverButTheirDataAndResults) {
  LeakyNet net;
  Learner learner =
      compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = "test-device"});
  learner.bind_step(loss::mse);
  learner.prepare({Dtype::F64, {2, 4}});
  const std::size_t before = kDevice.memory()->allocations;
  learner.step(item(kInputs11, 0), item(kTargets11, 0));
  kDevice.memory()->forget_counts();
  learner.step(item(kInputs11, 1), item(kTargets11, 1));
  EXPECT_EQ(kDevice.memory()->uploaded, (2 * 3 + 2 * 4) * sizeof(double)) << "data";
  EXPECT_EQ(kDevice.memory()->downloaded, (1 + 2 * 4 + 3 * 4) * sizeof(double) + 1 + 2 * 4)
      << "loss, result, gradient, whether all is finite, and two counters";
  EXPECT_EQ(kDevice.memory()->allocations, 0U);
  EXPECT_GT(before, 0U);
  kDevice.memory()->forget_counts();
  net.w.value();
  EXPECT_EQ(kDevice.memory()->downloaded, 0U) << "nothing has written it";
  net.v.value();
  EXPECT_EQ(kDevice.memory()->downloaded, 2 * 4 * sizeof(double)) << "the state that was asked for";
}

TEST(Device, ScoresAndProgramsByHand) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  const StepFunction f = [](StepCall& m, ArraySpan s) { return LossAndAux{loss::mse(m(s[0]), s[1])}; };
  const Avals slices{{Dtype::F64, {2, 3}}, {Dtype::F64, {2, 4}}};
  const auto losses = [&](const char* backend) {
    ScoreRun scores(learner.graph().module_info.model, f, slices, backend);
    scores.follow(net);
    scores(Arrays{kInputs11, kTargets11});
    return scores(Arrays{kInputs11, kTargets11}).losses;
  };
  EXPECT_EQ(losses("test-device"), losses("interpreter"));
  const ModelPlan plan(learner.graph().module_info.model);
  const auto gradient = [&](const char* backend) {
    const StepProgram step = StepProgram::trace(plan.model(), f, slices);
    ProgramRun run(find_backend(backend), lean(plan.bptt(step, slices, {.steps = 11})));
    for (const ModelPlan::Start& p : plan.params()) run.set(PortRole::Param, p.port.name, p.value);
    run.set(PortRole::Slice, "slice0", kInputs11.tensor());
    run.set(PortRole::Slice, "slice1", kTargets11.tensor());
    run();
    return run.result(PortRole::Gradient, "w");
  };
  EXPECT_EQ(gradient("test-device"), gradient("interpreter"));
}

// Parameters and slots of an optimiser that updates on the device, between calls of a learner on the host.
TEST(Device, UpdatesOfAnOptimiser) {
  const auto trained = [](const char* backend) {
    const char* const before = std::getenv("ETRACE_BACKEND");
    const std::string kept = before != nullptr ? before : "";
    ::setenv("ETRACE_BACKEND", backend, 1);
    LeakyNet net;
    Learner learner =
        compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = "interpreter"});
    optim::Adam adam(net, 1e-2);
    for (int i = 0; i < 3; ++i) adam.update(learner.etrace_grad(kInputs11, kTargets11, loss::mse).grads);
    before != nullptr ? ::setenv("ETRACE_BACKEND", kept.c_str(), 1) : ::unsetenv("ETRACE_BACKEND");
    return net.w.value().tensor();
  };
  EXPECT_EQ(trained("test-device"), trained("interpreter"));
}

}  // namespace
}  // namespace etrace
