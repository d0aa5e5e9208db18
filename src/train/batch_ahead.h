// The next batch, made in a second thread while the one before is learned from. Batches are pure functions of
// their number, so that nothing depends on when one is made.
#pragma once

#include <future>

#include "etrace/tasks.h"

#pragma GCC visibility push(default)
namespace etrace::train {

class BatchAhead {
 public:
  BatchAhead(const Task& task, std::int64_t batch_size) : task_(task), size_(batch_size) {}
  ~BatchAhead();  // waits for what is being made
  BatchAhead(const BatchAhead&) = delete;
  BatchAhead& operator=(const BatchAhead&) = delete;

  // The batch of that number, and begins with the one behind it. What making it throws, it throws.
  TaskBatch operator()(std::uint64_t index);

 private:
  const Task& task_;
  std::int64_t size_;
  std::future<TaskBatch> next_;
  std::uint64_t number_ = 0;  // of next_
};

}  // namespace etrace::train
#pragma GCC visibility pop
