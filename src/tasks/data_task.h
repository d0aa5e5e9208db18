// A task over data: batches of its samples, split, normalised and shuffled.
//   padding        series that are shorter than the longest are aligned at their end; before their first step
//                  samples stand still (TaskBatch::active), or take in zeros
//   parts          as the data gives them; else the seed draws `test` of the samples (or of the groups:
//   speakers,
//                  writers …), and `valid` of the training part for checks
//   normalisation  every channel has mean 0 and variance 1 over the training part, or is as it is
//   order          every epoch of training is a permutation of its own, from seed and epoch
#pragma once

#include <memory>
#include <mutex>

#include "data/dataset.h"
#include "etrace/tasks.h"

#pragma GCC visibility push(default)
namespace etrace {

struct DataTaskOptions {
  std::string name;
  double test = 0.2, valid = 0.1;
  bool normalise = true, by_group = false;
  bool frozen = true;  // shorter series stand still before their first step; else zeros come in
  std::uint64_t seed = 0;
  Dtype dtype = Dtype::F32;
};

class DataTask : public Task {
 public:
  // ValueError: the data has no samples, a part would be empty, a class is missing in the training part.
  DataTask(std::shared_ptr<const data::Dataset>, const DataTaskOptions&);

  std::optional<std::int64_t> samples(Part) const override;
  bool has_padding() const override { return frozen_; }
  std::string about() const override;
  // "data classes" (a line each), "data inputs" (the same), "data label" and "data series" where the source
  // names its columns, "data steps", "data padding" (frozen or zeros), and "data mean", "data
  // scale" (with commas) if it is normalised.
  std::vector<std::pair<std::string, std::string>> facts() const override;
  const data::Dataset& dataset() const { return *data_; }
  // What a series of the data becomes before a model sees it: [steps, channels] at `out`, padded at the
  // front.
  void write(std::size_t sample, float* out) const;

 private:
  TaskBatch draw(const Draw&) const override;
  std::vector<std::size_t> chosen(const Draw&, std::int64_t& counted) const;
  void split(const DataTaskOptions&);
  void measure();
  std::string channel_name(std::size_t channel) const;

  std::shared_ptr<const data::Dataset> data_;
  std::vector<std::size_t> parts_[3];  // by Part
  std::vector<float> mean_, scale_;    // per channel; empty: as it is
  std::string split_text_;
  bool frozen_ = false;
  // The order of one epoch, which its batches share; batches may be asked for in several threads.
  mutable std::mutex order_lock_;
  mutable std::uint64_t epoch_ = 0;
  mutable std::vector<std::size_t> order_;
};

// The task `data` for a run that has learned from it before: columns and classes are matched by name.
std::unique_ptr<Task> make_data_task(const TaskOptions&, const data::Expected&);
// The task `data` over data that was read already: settings and texts of its row, without those that say what
// is read.
std::unique_ptr<Task> make_data_task(std::shared_ptr<const data::Dataset>, const TaskOptions&);

}  // namespace etrace
#pragma GCC visibility pop
