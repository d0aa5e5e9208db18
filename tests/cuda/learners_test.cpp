// Learners on a played CUDA device: gradients, training, steps by the host and checkpoints against the
// interpreter; graphs, memory and refusals.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "cuda/played_device.h"
#include "cuda/reference_programs.h"
#include "emit/emit.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;
using ::testing::HasSubstr;

class CudaLearners : public PlayedDevice {};

const Array kInputs = Random(1).f64({11, 2, 3}), kTargets = Random(2).f64({11, 2, 4});

Tensors everything(const std::string& backend) {
  Tensors out;
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = backend});
  optim::Adam adam(net, 1e-2, {}, {.clip_norm = 1.0});
  const auto add = [&](ArraySpan all) {
    for (const Array& a : all) out.push_back(a.tensor());
  };
  add(learner.etrace_grad(kInputs, kTargets, loss::mse).grads.values);
  add(Arrays{learner.etrace_train(kInputs, kTargets, loss::mse, adam, {{}, UpdateEvery::Window, 4}).losses});
  add(Arrays{net.w.value(), net.v.value()});
  learner.bind_step(loss::mse, &adam);
  for (std::int64_t t = 0; t < 5; ++t) add(learner.step(item(kInputs, t), item(kTargets, t)).results);
  for (const EligibilityTrace& e : learner.etraces()) add(Arrays{e.value});
  for (const auto& [name, value] : learner.checkpoint(&adam).tensors) out.push_back(value);
  return out;
}

TEST_F(CudaLearners, AgreeWithTheInterpreter) {
  const Tensors found = everything("cuda"), expected = everything("interpreter");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LE(distance(found[i], expected[i]), 1e-12) << i;
}

// A checkpoint of one engine goes on on the other.
TEST_F(CudaLearners, CheckpointsGoBothWays) {
  const auto losses = [](const char* first, const char* second) {
    LeakyNet net;
    optim::Adam adam(net, 1e-2);
    TensorFile kept;
    {
      Learner learner =
          compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = first});
      learner.etrace_train(kInputs, kTargets, loss::mse, adam);
      kept = learner.checkpoint(&adam);
    }
    LeakyNet other;
    optim::Adam again(other, 1e-2);
    Learner learner =
        compile(other, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = second});
    learner.restore(kept, &again);
    return learner.etrace_train(kInputs, kTargets, loss::mse, again).losses.tensor();
  };
  const Tensor expected = losses("interpreter", "interpreter");
  EXPECT_LE(distance(losses("interpreter", "cuda"), expected), 1e-12);
  EXPECT_LE(distance(losses("cuda", "interpreter"), expected), 1e-12);
}

Program window_of(const char* model, std::int64_t steps) {
  Model m = read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + model + ".json");
  m.name = model;
  return gradient_program(m, "window", steps);
}

void expect_agreement(const Program& p, double tolerance) {
  const Tensors args = values_for(p), expected = run_interpreter(p, args), found = run_on_device(p, args);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LE(distance(found[i], expected[i]), tolerance) << p.name << " " << p.results[i].name;
}

TEST_F(CudaLearners, WindowsOfReferenceCases) {
  for (const char* name : {"cell_LSTMCell_b3", "op_conv1d_b3", "op_sparse_csr", "net_TwoLayerGRU"})
    expect_agreement(window_of(name, 6), 1e-9);
}

// Blocks and threads in the opposite order: the same bits.
TEST_F(CudaLearners, DoNotDependOnTheOrderOfThreads) {
  const Program p = window_of("cell_LSTMCell_b3", 6);
  const Tensors args = values_for(p), forwards = run_on_device(p, args);
  ::setenv("PLAYED_BACKWARDS", "1", 1);
  const Tensors backwards = run_on_device(p, args);
  ::unsetenv("PLAYED_BACKWARDS");
  for (std::size_t i = 0; i < forwards.size(); ++i) EXPECT_TRUE(same_bits(forwards[i], backwards[i])) << i;
}

TEST_F(CudaLearners, WindowsAreOneGraph) {
  const Program p = window_of("cell_GRUCell_b3", 6);
  const auto code = std::dynamic_pointer_cast<const cuda::CudaProgram>(find_backend("cuda").compile(p));
  ASSERT_NE(code, nullptr);
  EXPECT_EQ(code->reason(), "");
  const DeviceMemory& memory = *find_backend("cuda").memory();
  const auto buffers = [&] {
    std::vector<std::shared_ptr<void>> all;
    for (const auto* ports : {&p.arguments, &p.results})
      for (const Port& port : *ports) {
        all.push_back(memory.allocate(port.aval.bytes()));
        const Tensor zeros = Tensor::zeros(port.aval);
        memory.upload(all.back().get(), zeros.bytes(), port.aval.bytes());
      }
    return all;
  };
  const auto run = [&](const std::vector<std::shared_ptr<void>>& all) {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (std::size_t i = 0; i < all.size(); ++i)
      i < p.arguments.size() ? in.push_back(all[i].get()) : out.push_back(all[i].get());
    for (const Alias& a : p.aliases) out[a.result] = all[a.argument].get();
    code->run(in.data(), out.data());
    code->wait();
  };
  const auto one = buffers(), two = buffers();
  for (int i = 0; i < 5; ++i) run(one);
  EXPECT_EQ(code->captures(), 1);
  for (int i = 0; i < 5; ++i) run(i % 2 == 0 ? one : two);
  EXPECT_EQ(code->captures(), 2);
}

struct Calls {
  std::uint64_t graphs = 0, others = 0;
};
Calls played_calls() {
  void* const library = ::dlopen(ETRACE_PLAYED_CUDA, RTLD_NOW | RTLD_LOCAL);
  const auto ask =
      reinterpret_cast<void (*)(std::uint64_t*, std::uint64_t*)>(::dlsym(library, "played_calls"));
  Calls out;
  ask(&out.graphs, &out.others);
  return out;
}

// Data, results and the optimiser's numbers travel inside the graph.
TEST_F(CudaLearners, PlayedStepsAreOneLaunchEach) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = "cuda"});
  optim::Adam adam(net, 1e-2);
  learner.bind_step(loss::mse, &adam);
  for (std::int64_t t = 0; t < 4; ++t) learner.step(item(kInputs, t), item(kTargets, t));
  const Calls before = played_calls();
  for (std::int64_t t = 4; t < 10; ++t) learner.step(item(kInputs, t), item(kTargets, t));
  const Calls after = played_calls();
  EXPECT_EQ(after.graphs - before.graphs, 6U);
  EXPECT_EQ(after.others - before.others, 0U);
}

// Neither data of the next window that is on its way, nor anything else, is taken for that of a later call.
TEST_F(CudaLearners, WindowsInARowAreWindowsOneByOne) {
  const auto losses = [](const char* backend, bool at_once) {
    LeakyNet net;
    Learner learner =
        compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = backend});
    optim::Adam adam(net, 1e-2);
    Tensors out;
    for (int round = 0; round < 2; ++round)
      for (std::int64_t t = 0; t < 9; t += at_once ? 9 : 3) {
        const std::int64_t end = at_once ? 9 : t + 3;
        const SequenceTraining r =
            learner.etrace_train(slice_axis(kInputs, 0, t, end), slice_axis(kTargets, 0, t, end), loss::mse,
                                 adam, {{}, UpdateEvery::Window, 3});
        for (const double x : r.losses.tensor().to_doubles()) out.push_back(Array(x).tensor());
      }
    return out;
  };
  const Tensors expected = losses("interpreter", false);
  for (const bool at_once : {false, true}) {
    const Tensors found = losses("cuda", at_once);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LE(distance(found[i], expected[i]), 1e-12) << i;
  }
}

// Loops whose end only the device knows are the host's, and say so.
TEST_F(CudaLearners, WhileAndCondAreTheHosts) {
  const Aval type{Dtype::F64, {3, 3}};
  const Program p = as_program(make_jaxpr(
      [](ArraySpan x) {
        const Arrays settled = while_loop([](ArraySpan s) { return less(sum(s[0]), Array(100.0)); },
                                          [](ArraySpan s) {
                                            return Arrays{s[0] * 2.0 + transpose(s[0], {1, 0})};
                                          },
                                          {x[0]});
        return cond(
            greater(sum(x[0]), Array(0.0)), [](ArraySpan s) { return Arrays{s[0] + 1.0}; },
            [](ArraySpan s) { return Arrays{tanh(s[0])}; }, {settled[0]});
      },
      Avals{type}));
  ::testing::internal::CaptureStderr();
  const auto code = std::dynamic_pointer_cast<const cuda::CudaProgram>(find_backend("cuda").compile(p));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("is no graph on the CUDA device"));
  EXPECT_THAT(code->reason(), HasSubstr("the host decides how to go on"));
  EXPECT_THAT(code->reason(), HasSubstr("while"));
  const Tensors args{Tensor::full(type, 0.5)};
  const Tensors expected = run_interpreter(p, args), found = run_on_device(p, args);
  EXPECT_LE(distance(found[0], expected[0]), 1e-12);
}

TEST_F(CudaLearners, MemoryThatIsNotThereIsRefusedWithWhatHelps) {
  static_cast<void>(find_backend("cuda").memory());
  ::setenv("PLAYED_MEMORY", "1000000", 1);
  try {
    static_cast<void>(find_backend("cuda").memory()->allocate(std::size_t{1} << 30U));
    ADD_FAILURE();
  } catch (const ValueError& e) {
    EXPECT_THAT(e.message(), HasSubstr("out of memory: a buffer on the CUDA device takes 1 GiB"));
    EXPECT_THAT(e.message(), HasSubstr("pp_prop"));
  }
  ::unsetenv("PLAYED_MEMORY");
}

// Before a trace is allocated; with what every part takes, and what other ways would.
TEST_F(CudaLearners, MemoryThatTracesDoNotFitIsRefusedWithAlternatives) {
  static_cast<void>(find_backend("cuda").memory());
  ::setenv("PLAYED_MEMORY", "1000", 1);
  try {
    nn::GRUCell model(10, 20);
    compile(model, D_RTRL(), zeros({2, 10}), {.batch_size = 2, .backend = "cuda"});
    ADD_FAILURE();
  } catch (const ValueError& e) {
    for (const char* part : {"out of memory: D_RTRL takes ", " in the memory of the backend cuda (parameters",
                             "traces ", " and 0 B are free. What would take less:", "\n  windows of one step",
                             "\n  D_RTRL with traces of 16 bits (trace_dtype bf16): ",
                             "\n  the rule pp_prop: ", "still too much", "\n  a smaller batch"})
      EXPECT_THAT(e.message(), HasSubstr(part));
  }
  ::unsetenv("PLAYED_MEMORY");
}

TEST_F(CudaLearners, WhatHasNoCodeIsRefusedByName) {
  const Program p = as_program(make_jaxpr(
      [](ArraySpan x) {
        return bind_primitive(polygamma_p, Arrays{x[0], x[0]}, {});
      },
      Avals{{Dtype::F64, {3}}}));
  try {
    static_cast<void>(find_backend("cuda").compile(p));
    FAIL();
  } catch (const NotSupportedError& e) {
    EXPECT_THAT(e.message(),
                HasSubstr("'polygamma' runs as a kernel of the library, which code for the target 'cuda'"));
  }
}

TEST_F(CudaLearners, TheStatusNamesTheDevice) {
  const cuda::CudaStatus status = cuda::cuda_status();
  EXPECT_EQ(status.missing, "");
  EXPECT_THAT(status.device, HasSubstr("a CPU that plays a grid, compute capability 9.0"));
  EXPECT_GT(status.total_bytes, 0U);
}

TEST_F(CudaLearners, PrecisionOfProductsIsAWord) {
  ::setenv("ETRACE_MATMUL_PRECISION", "half", 1);
  try {
    static_cast<void>(cuda::products_in_tf32());
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_EQ(e.message(), "ETRACE_MATMUL_PRECISION is half; it may be float32 or tf32");
  }
  ::setenv("ETRACE_MATMUL_PRECISION", "tf32", 1);
  EXPECT_TRUE(cuda::products_in_tf32());
  ::unsetenv("ETRACE_MATMUL_PRECISION");
}

}  // namespace
}  // namespace etrace
