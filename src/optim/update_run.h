// Updates of a bound model: programs on a session that has its parameters and the optimiser's slots.
#pragma once

#include <list>

#include "optim/slots.h"

namespace etrace::optim {

class Optimizer::Runs {
 public:
  explicit Runs(const Optimizer&);  // bound

  // One update; gradients are of the leaves' types, undefined for leaves that are skipped. False: something
  // would not have been finite, and nothing has changed.
  bool operator()(const std::vector<bool>& skipped, ArraySpan gradients);

 private:
  struct Bound {
    std::vector<bool> skipped;
    Launch launch;
    std::vector<std::size_t> gradients;  // arguments, one per leaf that is not skipped
  };
  Bound& bound(const std::vector<bool>& skipped);

  const Optimizer& optimizer_;
  const Backend& backend_;
  Session session_;
  std::vector<double> hyper_;
  std::list<Bound> bound_;  // the newest first
};

}  // namespace etrace::optim
