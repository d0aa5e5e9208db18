#include "train/batch_ahead.h"

namespace etrace::train {

BatchAhead::~BatchAhead() {
  if (next_.valid()) next_.wait();
}

TaskBatch BatchAhead::operator()(std::uint64_t index) {
  const bool ready = next_.valid() && number_ == index;
  if (next_.valid() && !ready) next_.wait();  // a run that was set to another place
  TaskBatch now = ready ? next_.get() : task_.batch(index, size_);
  number_ = index + 1;
  next_ = std::async(std::launch::async,
                     [&task = task_, size = size_, number = number_] { return task.batch(number, size); });
  return now;
}

}  // namespace etrace::train
