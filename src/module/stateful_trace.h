// A step that is being traced: which states it touched, in which order, and what they held before.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/recorder.h"
#include "etrace/module.h"

namespace etrace {

// At most one per thread. States find it when they are read or written; the values of a step cannot carry it,
// because the first touch is what turns a state's value into a tracer.
class StatefulTrace {
 public:
  explicit StatefulTrace(const Module& root);  // NotSupportedError if one is active on this thread
  ~StatefulTrace();                            // every touched state gets its old value back
  StatefulTrace(const StatefulTrace&) = delete;
  StatefulTrace& operator=(const StatefulTrace&) = delete;
  static StatefulTrace* active();

  void touch(const State&);
  void require_writable(const State&) const;
  // NotSupportedError if the module is of the model that is traced: its members are known already.
  void require_other_model(const Module&, const std::string& member) const;

  TracedStep run(Module& root, std::span<const Aval> args, std::string name);

 private:
  struct Touched {
    const State* state;
    Arrays before;
  };
  std::string path_text(const State&) const;
  void describe_states(TracedStep&) const;

  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  std::vector<StateEntry> known_;
  std::unordered_map<const State*, StatePath> paths_;
  std::vector<Touched> touched_;
  std::unordered_map<const State*, std::size_t> index_;
};

}  // namespace etrace
