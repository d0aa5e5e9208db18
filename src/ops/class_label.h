// Labels of classes: whole numbers from 0 to classes − 1. Values are looked at where they are known. Inside a
// recorded program they are not: there class_label marks them, so that who runs the program can look at its
// data first (learn/run/label_check.h).
#pragma once

#include <optional>
#include <string>

#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive class_label_p;  // y = x; parameter `classes`

// The labels, checked or marked. ValueError in the name of `who` says which label at which position. Entries
// of weight zero may hold anything; an undefined weight counts all.
Array class_labels(const std::string& who, const Array& labels, std::int64_t classes,
                   const Array& weight = {});

// The position of the first label that names no class, in row-major order. Allocates nothing.
std::optional<std::size_t> first_wrong_label(const Tensor& labels, std::int64_t classes);
std::int64_t label_at(const Tensor& labels, std::size_t position);

}  // namespace etrace
#pragma GCC visibility pop
