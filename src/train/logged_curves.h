// The curves of a run or of a stream, from its log.
#pragma once

#include <string>

#include "report/run_page.h"

#include "io/json.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// The seconds of a run, whose processes count from 0 each.
class LogClock {
 public:
  double take(const Json& line);  // at this one
  double seconds() const { return before_ + now_; }

 private:
  double before_ = 0.0, now_ = 0.0;
};

struct LoggedCurves {
  enum Curve : std::uint8_t { Training, HeldOut };  // places in each plot
  RunPage::Plot loss{"Loss", {{.name = "training", .smooth = true}, {.name = "held out"}}, true};
  RunPage::Plot accuracy{"Accuracy", {{.name = "training", .smooth = true}, {.name = "held out"}}, false};

  LoggedCurves() = default;
  explicit LoggedCurves(const std::string& log);  // lines that are no such objects are left out; IoError
  double seconds() const { return clock_.seconds(); }

 private:
  void add(const Json& line);
  LogClock clock_;
};

// Of a stream: how its lines are answered.
struct StreamCurves {
  enum Plot : std::uint8_t { Accuracy, Kappa, Loss };
  enum Curve : std::uint8_t { Recent, All, NoChange };  // of accuracy and kappa; the loss has one
  std::vector<RunPage::Plot> plots;

  explicit StreamCurves(std::int64_t window);
  StreamCurves(std::int64_t window, const std::string& log);  // as above
  double seconds() const { return clock_.seconds(); }

 private:
  void add(const Json& line);
  LogClock clock_;
};

}  // namespace etrace::train
#pragma GCC visibility pop
