// Data of one's own as a task: a file or a folder that one of the readers knows, or a data set by its name.
// Which class is a series of? Asked at its last step.
#include <fmt/format.h>

#include "base/nearest.h"
#include "data/catalog.h"
#include "data/reader.h"
#include "etrace/error.h"
#include "tasks/data_task.h"

namespace etrace {

namespace {

// "steps=50,pool=2"
data::GivenOptions reader_options(const std::string& text) {
  data::GivenOptions out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
    if (equals == std::string::npos || equals >= end || equals == at)
      throw ValueError("data", fmt::format("read={}: expected NAME=VALUE,NAME=VALUE…", text));
    out.emplace_back(text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1));
    at = end + 1;
  }
  return out;
}

std::unique_ptr<data::Dataset> dataset_of(const TaskOptions& o, const data::Expected* expected = nullptr) {
  const std::string& file = text_setting(o, "file");
  std::string format = text_setting(o, "format"), path = file;
  std::string read = text_setting(o, "read");
  if (file.empty())
    throw ValueError("data",
                     "the task data needs a file or a folder: `etrace train FILE`, or --set file=FILE");
  if (const data::KnownData* known = data::find_known_data(file)) {
    path = data::require_installed(*known);
    if (format.empty()) format = known->format;
    if (read.empty()) read = known->read;
  }
  std::unique_ptr<data::Dataset> out = data::read_data(path, format, reader_options(read), expected);
  if (path != file) out->name = file;
  return out;
}

bool is_frozen(const std::string& padding) {
  if (padding != "frozen" && padding != "zeros" && !padding.empty())
    throw ValueError("data", fmt::format("padding={}: expected frozen or zeros", padding));
  return padding != "zeros";
}

DataTaskOptions data_options(const TaskOptions& o) {
  return {.name = "data",
          .test = setting(o, "test"),
          .valid = setting(o, "valid"),
          .normalise = setting(o, "normalise") != 0.0,
          .by_group = setting(o, "by_group") != 0.0,
          .frozen = is_frozen(text_setting(o, "padding")),
          .seed = o.seed,
          .dtype = o.dtype};
}

const RegisterTask kData(
    {.name = "data",
     .doc = "which class does a series belong to? data from a file, a folder or a known data set",
     .settings = {{"test", 0.2, 0.001, 0.9, false, "part kept for the final score, where the data has none"},
                  {"valid", 0.1, 0.001, 0.9, false,
                   "part of the rest kept for checks, where the data has none"},
                  {"normalise", 1, 0, 1, true,
                   "1: channels get mean 0 and variance 1 over the training part"},
                  {"by_group", 0, 0, 1, true, "1: speakers, users … are not torn apart by the split"}},
     .make = [](const TaskOptions& o) -> std::unique_ptr<Task> {
       return std::make_unique<DataTask>(dataset_of(o), data_options(o));
     },
     .recipes = {{.model = "gru", .updates = 1500, .memory = 0.0, .schedule = "cosine"},
                 {.model = "lif", .hidden = 128, .updates = 1500, .schedule = "cosine"},
                 {.model = "alif", .hidden = 128, .updates = 1500, .schedule = "cosine"}},
     .solved = 0.95,
     .texts = {
         {"file", "", "a file or a folder, or a name that `etrace data` lists"},
         {"format", "", "the reader (default: the one that knows the file)"},
         {"read", "", "options of the reader, as in read=steps=50,pool=2"},
         {"padding", "",
          "before the first step of shorter series: frozen (they stand still), or zeros (which come in); "
          "default: frozen, where the rule can"}}});

}  // namespace

std::unique_ptr<Task> make_data_task(const TaskOptions& given, const data::Expected& expected) {
  const TaskOptions o = complete_options("data", given);
  std::unique_ptr<data::Dataset> data = dataset_of(o, &expected);
  if (!expected.classes.empty()) data::take_classes(*data, expected.classes);
  return std::make_unique<DataTask>(std::move(data), data_options(o));
}

std::unique_ptr<Task> make_data_task(std::shared_ptr<const data::Dataset> data, const TaskOptions& given) {
  return std::make_unique<DataTask>(std::move(data), data_options(complete_options("data", given)));
}

}  // namespace etrace
