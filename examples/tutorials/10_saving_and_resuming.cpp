// Saving and resuming: a run that was stopped goes on as if it had not been.
#include <etrace/etrace.h>

#include <cstdio>
#include <filesystem>
#include <vector>

namespace et = etrace;

struct Net : et::Module {
  Net(std::int64_t in, std::int64_t out)
      : rnn(child<et::nn::GRUCell>("rnn", in, 16)), readout(child<et::nn::Linear>("out", 16, out)) {}
  et::nn::GRUCell& rnn;
  et::nn::Linear& readout;
  et::Array update(const et::Array& x) override { return readout(rnn(x)); }
};

// Model, learner and optimiser of one run. They belong together, so they stay where they are made.
struct Run {
  explicit Run(const et::Task& t)
      : task(t),
        model(t.spec().num_inputs, t.spec().num_outputs),
        learner(et::compile(model, et::D_RTRL{}, et::zeros({8, t.spec().num_inputs}), {.batch_size = 8})),
        optimizer(model, et::optim::schedule::cosine(1e-2, 40, 5)) {}

  std::vector<double> train(int updates) {
    std::vector<double> losses;
    for (int i = 0; i < updates; ++i) {  // batch i is a function of the seed and of i
      const et::TaskBatch batch = task.batch(static_cast<std::uint64_t>(optimizer.step()), 8);
      losses.push_back(learner
                           .etrace_train(batch.inputs, batch.targets, et::loss::cross_entropy, optimizer,
                                         {{.mask = batch.mask}})
                           .loss);
    }
    return losses;
  }

  const et::Task& task;
  Net model;
  et::Learner learner;
  et::optim::Adam optimizer;
};

int main() {
  const auto task =
      et::make_task("copying", {.settings = {{"lag", 3}, {"symbols", 2}, {"alphabet", 3}}, .seed = 1});
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "etrace-tutorial";
  std::filesystem::create_directories(folder);

  Run run(*task);
  run.train(10);
  run.learner.save(folder / "run.ckpt",
                   &run.optimizer);  // parameters, states, traces, counters, the averages
  const std::vector<double> on = run.train(10);

  Run other(*task);
  other.learner.load(folder / "run.ckpt", &other.optimizer);
  const std::vector<double> resumed = other.train(10);

  // Parameters alone, for other programs: safetensors or npz.
  et::save_parameters(other.model, folder / "model.safetensors");
  et::load_parameters(run.model, folder / "model.safetensors");
  std::filesystem::remove_all(folder);
  std::printf("losses %.4f ... %.4f\n", on.front(), on.back());
  std::printf("%s\n",
              on == resumed ? "the resumed run gives the same losses, bit by bit" : "the runs differ");
}
