// Character prediction: the next character of a text, at every step. Training sees the first nine tenths of
// the text, checks and scores the two halves of the rest. Without a file the text is made of short sentences,
// drawn from the seed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/file.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"

namespace etrace {

namespace {

// "the small cat sees a grey dog. ": subject, verb and object from lists of words.
std::string sentences(std::uint64_t seed) {
  constexpr std::array<const char*, 8> kNouns{"cat",   "dog",   "robot", "bird",
                                              "horse", "child", "mouse", "fish"};
  constexpr std::array<const char*, 8> kVerbs{"sees",  "finds", "follows", "hears",
                                              "likes", "meets", "helps",   "loses"};
  constexpr std::array<const char*, 8> kKinds{"small", "grey",  "old",   "quick",
                                              "quiet", "brave", "tired", "young"};
  constexpr std::int64_t kSentences = 2000;
  const Tensor draws = random::randint(random::key(seed), {kSentences, 6}, 0, 8).tensor();
  const std::int32_t* d = draws.data<std::int32_t>().data();
  std::string text;
  for (std::int64_t i = 0; i < kSentences; ++i, d += 6) {
    const auto pick = [&](const auto& words, int k) { return words.at(static_cast<std::size_t>(d[k])); };
    text +=
        fmt::format("{} {} {} {} {} {} {}. ", d[5] % 2 == 0 ? "the" : "a", pick(kKinds, 0), pick(kNouns, 1),
                    pick(kVerbs, 2), d[5] < 4 ? "the" : "a", pick(kKinds, 3), pick(kNouns, 4));
  }
  return text;
}

class Text : public Task {
 public:
  explicit Text(const TaskOptions& o) : Text(o, text_of(o)) {}

  std::string about() const override {
    return fmt::format("  {} characters, {} different ones\n", text_.size(), spec().classes.size());
  }

 private:
  Text(const TaskOptions& o, const std::string& text) : Task(spec_of(o, text)) {
    std::array<std::int32_t, 256> number{};
    std::string known;
    for (const std::string& c : spec().classes) {
      number[static_cast<unsigned char>(c[0])] = static_cast<std::int32_t>(known.size());
      known += c;
    }
    for (const char c : text) text_.push_back(number[static_cast<unsigned char>(c)]);
    if (static_cast<std::int64_t>(text_.size()) < 20 * (spec().steps + 1))
      throw ValueError("tasks",
                       fmt::format("a text of {} characters is too short for sequences of {}: a twentieth "
                                   "of it must hold one",
                                   text_.size(), spec().steps));
  }

  static std::string text_of(const TaskOptions& o) {
    const std::string& file = text_setting(o, "file");
    return file.empty() ? sentences(o.seed) : read_file(file);
  }

  static Spec spec_of(const TaskOptions& o, const std::string& text) {
    std::string known = text;
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    if (known.size() < 2)
      throw ValueError("tasks", fmt::format("the text has {}; expected two or more different characters",
                                            known.empty() ? "no characters" : "one character only"));
    std::vector<std::string> classes;
    for (const char c : known) classes.emplace_back(1, c);
    const auto size = static_cast<std::int64_t>(known.size());
    return {.name = "text",
            .num_inputs = size,
            .num_outputs = size,
            .steps = whole_setting(o, "steps"),
            .seed = o.seed,
            .dtype = o.dtype,
            .classes = std::move(classes)};
  }

  TaskBatch draw(const Draw& d) const override {
    const auto length = static_cast<std::int64_t>(text_.size()), rest = length / 20;
    const std::int64_t first = d.part == Part::Train   ? 0
                               : d.part == Part::Check ? length - 2 * rest
                                                       : length - rest;
    const std::int64_t last = d.part == Part::Train   ? length - 2 * rest
                              : d.part == Part::Check ? length - rest
                                                      : length;
    const Tensor starts = random::randint(d.key, {d.size}, first, last - spec().steps).tensor();
    std::vector<std::int32_t> seen, next;
    for (std::int64_t t = 0; t < spec().steps; ++t)
      for (const std::int32_t s : starts.data<std::int32_t>()) {
        seen.push_back(text_[static_cast<std::size_t>(s + t)]);
        next.push_back(text_[static_cast<std::size_t>(s + t + 1)]);
      }
    const Shape shape{spec().steps, d.size};
    return {one_hot(integers(seen, shape), spec().num_inputs, spec().dtype), integers(next, shape),
            ones({spec().steps}, spec().dtype)};
  }

  static Array integers(const std::vector<std::int32_t>& values, const Shape& shape) {
    Tensor out = Tensor::uninitialized({Dtype::I32, shape});
    std::copy(values.begin(), values.end(), reinterpret_cast<std::int32_t*>(out.writable()));
    return Array(out);
  }

  std::vector<std::int32_t> text_;  // classes
};

const RegisterTask kText({.name = "text",
                          .doc = "the next character of a text",
                          .settings = {{"steps", 40, 1, 1000000, true, "characters of a sequence"}},
                          .make = [](const TaskOptions& o) { return std::make_unique<Text>(o); },
                          .recipes = {{.model = "gru", .updates = 1000}},
                          .solved = 0.7,
                          .texts = {
                              {"file", "", "a text file (default: short sentences, drawn from the seed)"}}});

}  // namespace

}  // namespace etrace
