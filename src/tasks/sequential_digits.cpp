// Handwritten digits of 8 × 8 pixels, shown row by row or pixel by pixel; which digit was it?
#include "data/digits.h"
#include "tasks/data_task.h"

namespace etrace {

namespace {

const RegisterTask kSequentialDigits(
    {.name = "sequential_digits",
     .doc = "handwritten digits, shown row by row or pixel by pixel",
     .settings = {{"pixels", 8, 1, 64, true, "pixels per step: 8 is a row, 1 a pixel"},
                  {"test", 0.28, 0.01, 0.9, false, "part of the images that is kept for the final score"},
                  {"valid", 0.1, 0.01, 0.9, false, "part of the others that is kept for checks"}},
     .make =
         [](const TaskOptions& o) {
           return std::make_unique<DataTask>(data::read_digits(whole_setting(o, "pixels")),
                                             DataTaskOptions{.name = "sequential_digits",
                                                             .test = setting(o, "test"),
                                                             .valid = setting(o, "valid"),
                                                             .normalise = false,
                                                             .seed = o.seed,
                                                             .dtype = o.dtype});
         },
     .recipes = {{.model = "gru", .updates = 1600, .memory = 0.0, .schedule = "cosine"}},
     .solved = 0.95});

}  // namespace

}  // namespace etrace
