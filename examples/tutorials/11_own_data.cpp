// Data of one's own: a CSV file is read, a network learns it, and is asked about series that it never saw.
//
//   11_own_data waves.csv        one series per line: its label, then a number per step
#include <etrace/etrace.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace et = etrace;

struct Series {
  std::vector<std::vector<double>> numbers;  // [samples][steps]
  std::vector<double> labels;                // 0, 1, 2 … in the order of first appearance
};

Series read_csv(const char* path) {
  std::ifstream file(path);
  std::string line, field;
  std::getline(file, line);  // names of columns
  Series out;
  std::map<std::string, double> classes;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::getline(fields, field, ',');
    out.labels.push_back(classes.try_emplace(field, static_cast<double>(classes.size())).first->second);
    out.numbers.emplace_back();
    while (std::getline(fields, field, ',')) out.numbers.back().push_back(std::stod(field));
  }
  return out;
}

struct Net : et::Module {
  et::nn::GRUCell& rnn = child<et::nn::GRUCell>("rnn", 1, 32);
  et::nn::Linear& out = child<et::nn::Linear>("out", 32, 3);
  et::Array update(const et::Array& x) override { return out(rnn(x)); }
};

int main(int argc, char** argv) {
  const Series data = read_csv(argc > 1 ? argv[1] : "waves.csv");
  const auto samples = static_cast<std::int64_t>(data.labels.size());
  const std::int64_t batch = samples / 5;  // four parts to learn from, the last one to be asked about

  // Time first: [samples, steps] becomes [steps, samples, 1]. The label is asked for at the last step alone.
  const et::Array numbers = et::array(data.numbers);
  const std::int64_t steps = numbers.shape()[1];
  const et::Array xs = et::reshape(et::transpose(numbers), {steps, samples, 1});
  const et::Array labels = et::array(data.labels, et::Dtype::I32);
  const et::Array mask = et::convert(et::arange(steps) >= steps - 1, et::Dtype::F32);
  const auto part = [&](std::int64_t i) { return et::slice_axis(xs, 1, i * batch, (i + 1) * batch); };
  const auto answers = [&](std::int64_t i) {
    return et::broadcast_to(et::slice_axis(labels, 0, i * batch, (i + 1) * batch), {steps, batch});
  };

  Net model;
  et::Learner learner = et::compile(model, et::D_RTRL{}, et::zeros({batch, 1}),
                                    {.batch_size = batch, .vjp_method = et::VjpMethod::MultiStep});
  et::optim::Adam optimizer(model, 1e-2, {}, {.clip_norm = 1.0});
  for (int epoch = 0; epoch < 60; ++epoch)
    for (std::int64_t i = 0; i < 4; ++i) {
      learner.reset_state();
      learner.reset_model_state();
      learner.etrace_train(part(i), answers(i), et::loss::cross_entropy, optimizer,
                           {{.mask = mask, .chunk_size = 8}});
    }

  learner.reset_model_state();
  const et::Arrays scores = learner.etrace_evolve(et::Arrays{part(4)});  // [steps, batch, classes]
  const et::Array said = et::argmax(et::slice_axis(scores[0], 0, steps - 1, steps), -1);
  const et::Array right = et::equal_to(et::slice_axis(answers(4), 0, steps - 1, steps), said);
  const double accuracy = et::mean(et::convert(right, et::Dtype::F32)).item<float>();
  std::printf("%s\n", accuracy > 0.9 ? "more than nine in ten series that it never saw are named right"
                                     : "not learned");
}
