// Runs: what `etrace train` does, as part of the library. A task or data, a model, a learning rule and an
// optimiser; a folder with the log, checkpoints, the best parameters and the page of the run; checks on data
// that is held out, an early stop, a final score. A run of a program is gone on with by the command line and
// the other way round, with the same bits.
//
//   const train::RunResult r = train::run({.task = "delayed_xor", .rule = "pp_prop"}, {.runs = "runs"});
//   r.score.accuracy, r.judgement->outcome, r.folder, r.history.checks
//   train::resume(r.folder, {{"updates", "2000"}});
//   train::evaluate(r.folder);
//   train::predict("runs/words", "new.npz");
//
// A model of one's own is TrainSettings::module, a task of one's own TrainSettings::own_task or a row
// (RegisterTask), series in memory TrainSettings::arrays. Names, defaults and meanings are those of the long
// options of `etrace train`; what settings leave open is as the recipe of the task has it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etrace/backend.h"
#include "etrace/learner.h"
#include "etrace/models.h"
#include "etrace/save.h"
#include "etrace/tasks.h"

#pragma GCC visibility push(default)
namespace etrace::data {
struct Expected;
}
namespace etrace::train {

// What to learn, and how
// -------------------------------------------------------------------------------------

// Series in memory: xs [samples, steps, channels] or [samples, steps]; ys a label of each, [samples], whole
// numbers; lengths [samples], if they differ: the first so many steps of a series are real.
struct SeriesArrays {
  Array xs, ys, lengths = {};
  std::vector<std::string> channels = {};  // their names; empty: they have none, and their places count
};
struct TrainArrays {
  SeriesArrays train;
  SeriesArrays valid = {}, test = {};     // undefined: drawn from the others, as the settings of `data` say
  std::vector<std::string> classes = {};  // names of the labels, which then count from 0; empty: the numbers
};

// What the numbers of a run depend on. Empty, 0 or none: as the task's recipe has it.
struct TrainSettings {
  std::string task;  // a name; a file, a folder or a data set that `etrace data` lists; empty for own_task
  std::vector<std::pair<std::string, double>> task_settings = {};
  std::vector<std::pair<std::string, std::string>> task_texts = {};
  // Layers in words (nn::LayerWords), in place of a model; then `model` is "layers".
  std::vector<std::string> layers = {};
  // A built-in model, a model file (*.json) or layers (*.toml).
  std::string model = {}, rule = {};
  std::vector<std::string> rule_options = {};  // NAME=VALUE; those of the recipe hold where it gives the rule
  std::int64_t hidden = 0;                     // of every hidden layer
  std::int64_t batch = 0, updates = 0;
  std::optional<double> learning_rate = {};  // of another optimiser than adam: its own
  std::int64_t window = 0;                   // steps of a window

  std::string schedule = {};  // "constant" or "cosine"; of another optimiser than adam constant
  std::int64_t warmup = 0;    // updates in which the rate rises

  std::string optimizer = "adam";
  std::optional<double> clip_norm = 1.0;
  UpdateEvery update = UpdateEvery::Sequence;
  std::optional<VjpMethod> method = {};  // none: windows, or single steps where every step updates
  std::optional<double> memory = {};     // ModelOptions::memory; none: the length of the sequences
  std::uint64_t seed = 0;
  Dtype dtype = Dtype::F32;
  std::string backend = default_backend();  // no number depends on it
  bool prefetch = true;                     // the next batch is made in a second thread; the same

  // In place of names. A module takes an input [batch, features] (or [features] where it is no batch's) and
  // gives [batch, outputs]. It is trained as it stands: one step of it is recorded, as a model file has it,
  // which stays in the folder of the run; at the end it gets the best parameters. States start as
  // init_all_states makes them.
  std::shared_ptr<Module> module = {};
  std::shared_ptr<const Task> own_task = {};
  std::shared_ptr<const TrainArrays> arrays = {};  // of the task `data`; the folder of the run keeps them

  // What becomes of `module` and `arrays`: the text of a model file and of an npz file.
  std::shared_ptr<const std::string> model_text = {}, data_text = {};
  // Of a run that goes on or is scored: the columns that it has learned from. Data is matched with them.
  std::shared_ptr<const data::Expected> expected = {};
};

// What a run does beside learning.
struct RunPlan {
  std::int64_t every = 100;       // updates between checkpoints
  std::int64_t check_every = 50;  // batches between checks on held-out data
  std::int64_t patience = 0;      // checks without a better score after which a run stops; 0: it does not
  std::optional<double> until_accuracy = {};
  std::string runs, name;              // the folder of runs (empty: the run has none), and this one's name
  std::string folder;                  // of a run that goes on; empty: a new one
  std::string checkpoint, save, json;  // files apart from the folder; empty: none
  bool resume = false;
  bool new_rate = false;                      // a run that goes on may have another learning rate or schedule
  std::optional<TensorFile> start_from = {};  // parameters, of the file that `load` names
  std::string load = {};
  std::vector<std::string> command = {};  // as it was typed, to be kept
  // The page of the run for browsers of this machine while it goes, at this port; 0: a free one. The run says
  // its address. No number depends on it.
  std::optional<std::uint16_t> live = {};
  bool fidelity = true;  // compare the gradient with BPTT at the start and at the end, for the folder
};

// Both from long options by name ("check-every" or "check_every", "lr", "set" with "lag=4", …), as a
// configuration has them. ValueError: no such option (with the nearest one), a value that it cannot have.
using ConfigItems = std::vector<std::pair<std::string, std::string>>;
struct RunConfig {
  TrainSettings settings;
  RunPlan plan;
};
RunConfig run_config(const ConfigItems&);
std::vector<std::string> run_options();  // the names, as the command line has them

// What comes of it
// -------------------------------------------------------------------------------------------

struct Score {
  double loss = 0.0;
  std::optional<double> accuracy = {};  // none: the task has no labels
};

enum class Outcome : std::uint8_t { Guessing, Better, Solved };
std::string_view name(Outcome);  // "guessing"
struct Judgement {
  Outcome outcome = Outcome::Better;
  Score guess;
  double goal = 0.0;  // accuracy or loss from which on the task is solved

  // "solved: …", "no better than guessing, …"; one line.
  std::string text() const;
};

// Losses and scores on the way. A run that went on in its folder has those before it, too.
struct RunHistory {
  struct Point {
    std::int64_t batches = 0, updates = 0;
    Score score;
  };
  std::vector<Point> batches;  // of each, before its updates
  std::vector<Point> checks;   // on data that is held out
};

struct RunResult {
  enum class Reason : std::uint8_t { Updates, Accuracy, Patience, Interrupted };
  Reason reason = Reason::Updates;
  Score score = {};                         // on data never trained on; interrupted: of the last batch
  std::optional<Judgement> judgement = {};  // none: it was interrupted
  bool reached = true;                      // until_accuracy, where it is given
  bool files_lost = false;                  // something could not be written
  std::string folder = {};                  // empty: none
  std::int64_t batches = 0, updates = 0;    // learned from, and of the parameters
  RunHistory history = {};
};
std::string_view name(RunResult::Reason);  // "updates"

// What a run tells while it goes.
class RunView {
 public:
  virtual ~RunView();
  virtual void say(const std::string& text);     // whole lines, for people
  virtual void result(const std::string& text);  // the same, and not to be left out
  virtual void warn(const std::string& text);    // one line, without its end
  virtual void start(std::int64_t updates, std::int64_t total);
  virtual void progress(std::int64_t updates, const Score& of_the_batch);
  virtual void check(std::int64_t updates, const Score& held_out);
  virtual bool stop_requested();  // asked between batches: the run ends there, with a checkpoint
};

// Runs
// -------------------------------------------------------------------------------------------------------

// Trains. ValueError, TypeError, IoError … name what is wrong before the work begins; a file that cannot be
// written later costs no result.
RunResult run(const TrainSettings&, const RunPlan& = {}, RunView* = nullptr);
// Goes on with the run of a folder, whoever began it. `changes`: options by name, as run_config takes them; a
// learning rate holds from there on. `own`: module, own_task and arrays of the run, where it was made with
// them; a module may be left out, and arrays where the folder keeps them.
RunResult resume(const std::string& folder, const ConfigItems& changes = {}, RunView* = nullptr,
                 const TrainSettings& own = {});

struct EvaluateOptions {
  std::int64_t batches = 16;  // of a task that never ends; of data the whole part is scored
  Part part = Part::Final;
  std::string backend = default_backend();
  TrainSettings own = {};  // as for resume
};
// The score of the best parameters of a run, on data never trained on.
Score evaluate(const std::string& folder, const EvaluateOptions& = {});

struct Predictions {
  std::vector<std::string> classes;
  struct Row {
    std::size_t answer = 0;    // the class
    double probability = 0.0;  // that the model gives it
    std::string label;  // what the file says (empty: nothing); of other data it may be none of the classes
    std::string name;   // of the sample: its file or series; empty: it has none
  };
  std::vector<Row> rows;                // one per sample, in the order of the file
  std::size_t right = 0;                // answers that are as the file says
  std::vector<std::string> notes = {};  // on the data: what is left over, what is taken by its place
};
// What the best parameters of a run on data say of a file, which is read as the run's data was; or of series
// in memory. Columns and channels are those of the run's names, where both have names. `labelled`: the file
// says classes; false: it says none, or what it says is left out. ValueError: the run is not on data, the
// file has another number of channels, or lacks one by its name.
Predictions predict(const std::string& run, const std::string& file, const std::string& backend,
                    bool labelled = true);
Predictions predict(const std::string& run, const SeriesArrays&,
                    const std::string& backend = default_backend());

// The runs of a folder by name, each with the text of its run.json. Those that cannot be read are left out,
// and `problems` says why. IoError: the folder cannot be read.
struct ListedRun {
  std::string folder, json;
};
std::vector<ListedRun> list_runs(const std::string& runs, std::vector<std::string>* problems = nullptr);

}  // namespace etrace::train
#pragma GCC visibility pop
