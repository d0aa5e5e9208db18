// What a score is worth: against the best constant answer, and against what the task calls solved.
#pragma once

#include <string>

#include "train/evaluator.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// The best answer that is the same in every scored step of the batches [first, first + count): the most
// frequent label, or the mean.
Score best_constant(const Task&, std::uint64_t first, std::int64_t count, std::int64_t batch_size);

// `samples`: how many were scored; an accuracy within three standard errors of the guess is no better than
// it.
Judgement judge(const TaskEntry&, const Score& score, const Score& guess, std::int64_t samples);

}  // namespace etrace::train
#pragma GCC visibility pop
