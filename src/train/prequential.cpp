// Scores of a stream, and the detector of drift; see etrace/stream.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "etrace/error.h"
#include "etrace/stream.h"
#include "io/json.h"

namespace etrace {

namespace {

double part(std::int64_t of, std::int64_t all) {
  return all == 0 ? 0.0 : static_cast<double>(of) / static_cast<double>(all);
}

double kappa_of(double accuracy, double chance) {
  return chance >= 1.0 ? 0.0 : (accuracy - chance) / (1.0 - chance);
}

Json parsed_state(const std::string& text) {
  std::optional<Json> json = json_of(text);
  if (!json || !json->is_object()) throw ValueError("stream", "the scores of a stream cannot be read");
  return std::move(*json);
}

// A member that must be there.
template <class T>
T needed(const Json& json, const char* way) {
  std::optional<T> out = said<T>(json, way);
  if (!out) throw ValueError("stream", fmt::format("the scores of a stream cannot be read: {}", way));
  return std::move(*out);
}

}  // namespace

// The bound of a mean of n values, for n of each side together.
DriftWatch::DriftWatch(double delta) : log_(std::log(1.0 / delta)) {
  if (!(delta > 0.0 && delta < 1.0))
    throw ValueError("stream", fmt::format("the probability of a false alarm is {}; expected (0, 1)", delta));
}

bool DriftWatch::add(bool error) {
  count_ += 1;
  errors_ += error ? 1.0 : 0.0;
  const auto bound = [&](double n) { return std::sqrt(log_ / (2 * n)); };
  if (best_count_ == 0 ||
      errors_ / count_ + bound(count_) <= best_errors_ / best_count_ + bound(best_count_)) {
    best_count_ = count_;
    best_errors_ = errors_;
  }
  const double since = count_ - best_count_;
  if (since < 1) return false;
  const double before = best_errors_ / best_count_, now = (errors_ - best_errors_) / since;
  const double most = std::sqrt(log_ / 2 * (1 / best_count_ + 1 / since));
  if (now - before <= most) return false;
  count_ = errors_ = best_count_ = best_errors_ = 0;
  return true;
}

std::string DriftWatch::text() const {
  return json_text(OrderedJson{{"log", log_},
                               {"count", count_},
                               {"errors", errors_},
                               {"best_count", best_count_},
                               {"best_errors", best_errors_}});
}

void DriftWatch::take(const std::string& text) {
  const Json json = parsed_state(text);
  DriftWatch out = *this;
  out.log_ = needed<double>(json, "/log");
  out.count_ = needed<double>(json, "/count");
  out.errors_ = needed<double>(json, "/errors");
  out.best_count_ = needed<double>(json, "/best_count");
  out.best_errors_ = needed<double>(json, "/best_errors");
  *this = out;
}

Prequential::Prequential(std::int64_t classes, std::int64_t window) : window_(window) {
  if (classes < 2) throw ValueError("stream", fmt::format("{} classes; there must be at least 2", classes));
  if (window < 1)
    throw ValueError("stream", fmt::format("a window of {} answers; expected 1 or more", window));
  labels_.resize(static_cast<std::size_t>(classes));
  answers_.resize(static_cast<std::size_t>(classes));
}

bool Prequential::add(std::int32_t answer, std::int32_t label) {
  const auto classes = static_cast<std::int32_t>(labels_.size());
  if (label < 0 || label >= classes || answer < 0 || answer >= classes)
    throw ValueError("stream", fmt::format("answer {} and label {}; expected classes from 0 to {}", answer,
                                           label, classes - 1));
  const Outcome now{answer == label, label == last_label_};
  const auto most = std::max_element(labels_.begin(), labels_.end()) - labels_.begin();
  majority_right_ += count_ > 0 && most == label;
  ++count_;
  right_ += now.right;
  same_ += now.same;
  ++labels_[static_cast<std::size_t>(label)];
  ++answers_[static_cast<std::size_t>(answer)];
  recent_.push_back(now);
  recent_right_ += now.right;
  recent_same_ += now.same;
  if (static_cast<std::int64_t>(recent_.size()) > window_) {
    recent_right_ -= recent_.front().right;
    recent_same_ -= recent_.front().same;
    recent_.pop_front();
  }
  last_label_ = label;
  const bool drift = watch_.add(!now.right);
  if (drift) {
    ++drifts_;
    last_drift_ = count_;
  }
  return drift;
}

double Prequential::accuracy() const { return part(right_, count_); }
double Prequential::no_change() const { return part(same_, count_); }
double Prequential::majority() const { return part(majority_right_, count_); }
double Prequential::recent_accuracy() const {
  return part(recent_right_, static_cast<std::int64_t>(recent_.size()));
}
double Prequential::kappa() const {
  double chance = 0.0;
  for (std::size_t c = 0; c < labels_.size(); ++c)
    chance += part(labels_[c], count_) * part(answers_[c], count_);
  return kappa_of(accuracy(), chance);
}
double Prequential::kappa_no_change() const { return kappa_of(accuracy(), no_change()); }
double Prequential::recent_kappa_no_change() const {
  return kappa_of(recent_accuracy(), part(recent_same_, static_cast<std::int64_t>(recent_.size())));
}

std::string Prequential::text() const {
  std::string recent;  // a letter per answer: bit 0 right, bit 1 the label as before
  for (const Outcome& o : recent_) recent += static_cast<char>('0' + (o.right ? 1 : 0) + (o.same ? 2 : 0));
  return json_text(OrderedJson{{"window", window_},
                               {"count", count_},
                               {"right", right_},
                               {"same", same_},
                               {"majority", majority_right_},
                               {"labels", labels_},
                               {"answers", answers_},
                               {"recent", recent},
                               {"last_label", last_label_},
                               {"drifts", drifts_},
                               {"last_drift", last_drift_},
                               {"watch", watch_.text()}});
}

void Prequential::take(const std::string& text) {
  const Json json = parsed_state(text);
  Prequential out(static_cast<std::int64_t>(labels_.size()), window_);
  out.count_ = needed<std::int64_t>(json, "/count");
  out.right_ = needed<std::int64_t>(json, "/right");
  out.same_ = needed<std::int64_t>(json, "/same");
  out.majority_right_ = needed<std::int64_t>(json, "/majority");
  out.labels_ = needed<std::vector<std::int64_t>>(json, "/labels");
  out.answers_ = needed<std::vector<std::int64_t>>(json, "/answers");
  out.last_label_ = needed<std::int32_t>(json, "/last_label");
  out.drifts_ = needed<std::int64_t>(json, "/drifts");
  out.last_drift_ = needed<std::int64_t>(json, "/last_drift");
  out.watch_.take(needed<std::string>(json, "/watch"));
  const auto window = needed<std::int64_t>(json, "/window");
  if (out.labels_.size() != labels_.size() || out.answers_.size() != labels_.size() || window != window_)
    throw ValueError("stream",
                     fmt::format("the scores are those of {} classes and a window of {}; expected {} and {}",
                                 out.labels_.size(), window, labels_.size(), window_));
  for (const char c : needed<std::string>(json, "/recent")) {
    const int bits = c - '0';
    const Outcome o{(bits & 1) != 0, (bits & 2) != 0};
    out.recent_.push_back(o);
    out.recent_right_ += o.right;
    out.recent_same_ += o.same;
  }
  *this = std::move(out);
}

}  // namespace etrace
