// The folder of a run: all that it leaves behind, in files that other programs read, too.
//   config.toml       every setting, resolved; `etrace train --config` takes it
//   run.json          what ran, where, how it ended; replaced as a whole
//   log.jsonl         one object per line
//   events.out.…      the same curves for TensorBoard
//   checkpoints/      what --resume goes on from
//   best.safetensors  the parameters that were best on the checks, with the settings
//   page.html         the run as a page
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"

#pragma GCC visibility push(default)
namespace etrace::train {

class RunFolder {
 public:
  // Makes root/name; with `numbered`, a name that is taken gets the next free -2, -3 …  ValueError: the name
  // is taken, or no name of a folder; IoError: it cannot be made.
  static RunFolder create(const std::string& root, const std::string& name, bool numbered);
  // ValueError: it is no folder of a run, or another process works in it.
  enum class Also : std::uint8_t { Nothing, Begun };  // is_begun()
  static RunFolder open(const std::string& path, Also = Also::Nothing);
  static bool is_run(const std::string& path);     // has a run.json
  static bool is_begun(const std::string& path);   // was made for a run that was killed at once
  static bool is_in_use(const std::string& path);  // by a process that is alive
  // ValueError: the run is of a stream, which has no test part and no best parameters.
  static void require_no_stream(const std::string& path, const char* verb);

  const std::string& path() const { return path_; }
  std::string name() const;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string checkpoint() const { return checkpoint_of(path_); }
  static std::string checkpoint_of(const std::string& path) { return path + "/checkpoints/last.safetensors"; }
  std::string best() const { return file("best.safetensors"); }
  std::string log() const { return file("log.jsonl"); }

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  void lock();

  std::string path_;
  std::shared_ptr<const int> lock_;  // held while the object lives, and by no second process
};

// The folders of runs in `root`, names ascending, with what their run.json holds. Those that cannot be read
// are left out, and `problems` says why.
struct FoundRun {
  std::string path;
  std::shared_ptr<const Json> json;
};
std::vector<FoundRun> find_runs(const std::string& root, std::vector<std::string>& problems);

}  // namespace etrace::train
#pragma GCC visibility pop
