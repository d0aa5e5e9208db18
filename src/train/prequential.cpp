// Scores of a stream, and the detector of drift; see etrace/stream.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "etrace/error.h"
#include "etrace/stream.h"

namespace etrace {

namespace {

double part(std::int64_t of, std::int64_t all) {
  return all == 0 ? 0.0 : static_cast<double>(of) / static_cast<double>(all);
}

double kappa_of(double accuracy, double chance) {
  return chance >= 1.0 ? 0.0 : (accuracy - chance) / (1.0 - chance);
}

nlohmann::json parsed_state(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw ValueError("stream", "the scores of a stream cannot be read");
  return json;
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
  return nlohmann::ordered_json{{"log", log_},
                                {"count", count_},
                                {"errors", errors_},
                                {"best_count", best_count_},
                                {"best_errors", best_errors_}}
      .dump();
}

void DriftWatch::take(const std::string& text) {
  const nlohmann::json json = parsed_state(text);
  try {
    log_ = json.at("log").get<double>();
    count_ = json.at("count").get<double>();
    errors_ = json.at("errors").get<double>();
    best_count_ = json.at("best_count").get<double>();
    best_errors_ = json.at("best_errors").get<double>();
  } catch (const nlohmann::json::exception&) {
    throw ValueError("stream", "the detector of drift cannot be read");
  }
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
  return nlohmann::ordered_json{{"window", window_},
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
                                {"watch", watch_.text()}}
      .dump();
}

void Prequential::take(const std::string& text) {
  const nlohmann::json json = parsed_state(text);
  Prequential out(static_cast<std::int64_t>(labels_.size()), window_);
  try {
    json.at("count").get_to(out.count_);
    json.at("right").get_to(out.right_);
    json.at("same").get_to(out.same_);
    json.at("majority").get_to(out.majority_right_);
    json.at("labels").get_to(out.labels_);
    json.at("answers").get_to(out.answers_);
    json.at("last_label").get_to(out.last_label_);
    json.at("drifts").get_to(out.drifts_);
    json.at("last_drift").get_to(out.last_drift_);
    out.watch_.take(json.at("watch").get<std::string>());
    const auto window = json.at("window").get<std::int64_t>();
    if (out.labels_.size() != labels_.size() || out.answers_.size() != labels_.size() || window != window_)
      throw ValueError(
          "stream", fmt::format("the scores are those of {} classes and a window of {}; expected {} and {}",
                                out.labels_.size(), window, labels_.size(), window_));
    for (const char c : json.at("recent").get<std::string>()) {
      const int bits = c - '0';
      const Outcome o{(bits & 1) != 0, (bits & 2) != 0};
      out.recent_.push_back(o);
      out.recent_right_ += o.right;
      out.recent_same_ += o.same;
    }
  } catch (const nlohmann::json::exception&) {
    throw ValueError("stream", "the scores of a stream cannot be read");
  }
  *this = std::move(out);
}

}  // namespace etrace
