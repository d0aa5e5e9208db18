// The C++ side of the random twins (python/tests/test_twins.py): runs every model of a generated file through
// the same calls as the Python side and writes what comes out.
//
//   twins FOLDER
//
// FOLDER/runs.txt has a line `seed element-type batch rule` for each run. Results go to
// FOLDER/cpp.safetensors under "run/what"; checkpoints to FOLDER/*.cpp.ckpt; those of the Python side,
// *.py.ckpt, are loaded and gone on from.
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "etrace/etrace.h"
#include "etrace/rules.h"
#include "etrace/save.h"

namespace et = etrace;
namespace nn = etrace::nn;

namespace {

et::Dtype dt = et::Dtype::F32;  // of the model that is being made

struct Made {
  int seed;
  std::shared_ptr<et::Module> (*make)();
};
#include ETRACE_TWINS

struct Run {
  int seed = 0;
  std::string type;
  std::int64_t batch = 0;
  std::string rule;

  std::string name() const {
    return std::to_string(seed) + "_" + type + "_b" + std::to_string(batch) + "_" + rule;
  }
};

class Results {
 public:
  void add(const std::string& name,
           const et::Array& value) {  // a copy: the next step overwrites what one gave
    file_.tensors.emplace_back(name, et::Tensor::copy_of(value.aval(), value.tensor().bytes()));
  }
  void add(const std::string& name, const et::ParamValues& values) {
    for (std::size_t i = 0; i < values.leaves.size(); ++i)
      if (values.values[i].defined()) add(name + "/" + to_string(values.leaves[i]), values.values[i]);
  }
  void say(const std::string& name, const std::string& text) { file_.metadata.emplace_back(name, text); }
  void write(const std::string& path) const { et::save_safetensors(path, file_); }

 private:
  et::TensorFile file_;
};

std::string graph_text(const et::ETraceGraph& graph) {
  std::string out;
  for (const et::HiddenGroup& g : graph.hidden_groups) {
    out += "group";
    for (const et::StatePath& path : g.hidden_paths) out += " " + et::to_string(path);
    out += " " + et::to_string(g.varshape()) + (g.is_diagonal_recurrence ? " diagonal\n" : " mixing\n");
  }
  for (const et::HiddenParamOpRelation& r : graph.hidden_param_op_relations)
    out += "relation " + et::to_string(r.path()) + " " + std::string(r.primitive->name()) + "\n";
  return out;
}

et::Array at(const et::Array& sequence, std::int64_t step) {
  return et::squeeze(et::slice_axis(sequence, 0, step, step + 1), {0});
}

// One learner of one run.
struct Twin {
  Twin(const Run& run, const Made& made)
      : model(made.make()),
        xs(et::random::normal(et::random::key(1), {6, run.batch, 3}, dt)),
        ys(et::random::normal(et::random::key(2), {6, run.batch, 2}, dt)),
        learner(et::compile(*model, *rule_of(run.rule), at(xs, 0), options(run))),
        optimizer(*model, 0.05) {}

  static std::shared_ptr<const et::LearningRule> rule_of(const std::string& name) {
    return et::make_rule(name == "windows" ? "d_rtrl" : name);
  }
  static et::LearnerOptions options(const Run& run) {
    et::LearnerOptions o;
    o.batch_size = run.batch;
    o.backend = "interpreter";
    if (run.rule == "windows") o.vjp_method = et::VjpMethod::MultiStep;
    return o;
  }
  et::TrainOptions train_options(const Run& run) const {
    et::TrainOptions o;
    if (run.rule == "windows")
      o.chunk_size = 2;
    else
      o.update = et::UpdateEvery::Step;
    return o;
  }
  et::SequenceTraining train(const Run& run) {
    return learner.etrace_train(xs, ys, et::loss::mse, optimizer, train_options(run));
  }

  std::shared_ptr<et::Module> model;
  et::Array xs, ys;
  et::Learner learner;
  et::optim::Adam optimizer;
};

void gradients(Results& out, const Run& run, const Made& made) {
  Twin twin(run, made);
  out.say(run.name() + "/fingerprint", twin.learner.fingerprint());
  out.say(run.name() + "/graph", graph_text(twin.learner.graph()));
  out.add(run.name() + "/start", et::param_values(*twin.model));
  out.add(run.name() + "/outputs", twin.learner.etrace_evolve({&twin.xs, 1})[0]);
  for (const std::string& state : twin.learner.state_names())
    out.add(run.name() + "/state/" + state, twin.learner.state(state));
  twin.learner.reset_state();
  twin.learner.reset_model_state();
  et::SequenceOptions options;
  if (run.rule == "windows") options.chunk_size = 3;
  const et::SequenceGradient g = twin.learner.etrace_grad(twin.xs, twin.ys, et::loss::mse, options);
  out.add(run.name() + "/losses", g.losses);
  out.add(run.name() + "/grads", g.grads);
}

void steps(Results& out, const Run& run, const Made& made) {
  if (run.rule == "windows") return;
  Twin twin(run, made);
  twin.learner.bind_step(et::loss::mse);
  for (int t = 0; t < 2; ++t) {
    const auto& r = twin.learner.step(at(twin.xs, t), at(twin.ys, t));
    const std::string name = run.name() + "/step" + std::to_string(t);
    out.add(name + "/result", r.results[0]);
    out.add(name + "/grads", r.grads);
  }
}

void training(Results& out, const Run& run, const Made& made, const std::string& folder) {
  const std::string place = folder + "/" + run.name();
  Twin twin(run, made);
  out.add(run.name() + "/trained/losses", twin.train(run).losses);
  twin.learner.save(place + ".cpp.ckpt", &twin.optimizer, {{"written by", "C++"}});
  out.add(run.name() + "/again/losses", twin.train(run).losses);
  out.add(run.name() + "/again/params", et::param_values(*twin.model));
  if (!std::filesystem::exists(place + ".py.ckpt")) return;
  Twin other(run, made);
  const auto notes = other.learner.load(place + ".py.ckpt", &other.optimizer);
  out.say(run.name() + "/notes", notes.at(0).second);
  out.add(run.name() + "/from_other/losses", other.train(run).losses);
  out.add(run.name() + "/from_other/params", et::param_values(*other.model));
}

// Both sides shall fail alike, too.
template <class F>
void attempt(Results& out, const std::string& name, F part) {
  try {
    part();
  } catch (const et::Error& e) {
    out.say(name + "/error", e.message());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const std::string folder = argv[1];
    std::ifstream list(folder + "/runs.txt");
    Results out;
    for (Run run; list >> run.seed >> run.type >> run.batch >> run.rule;) {
      dt = run.type == "float32" ? et::Dtype::F32 : et::Dtype::F64;
      for (const Made& made : kModels) {
        if (made.seed != run.seed) continue;
        attempt(out, run.name(), [&] { gradients(out, run, made); });
        attempt(out, run.name() + "/step", [&] { steps(out, run, made); });
        attempt(out, run.name() + "/train", [&] { training(out, run, made, folder); });
      }
    }
    out.write(folder + "/cpp.safetensors");
  } catch (const std::exception& e) {
    std::cerr << "twins: " << e.what() << "\n";
    return 1;
  }
}
