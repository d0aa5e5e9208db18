// Hostile names without end, in models, paths and programs of all kinds: the tokens of what is emitted must
// be those for plain names (support/hostile_names.h). `./dev fuzz names` builds and runs it; --help lists the
// options.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "etrace/error.h"
#include "etrace/rules.h"
#include "support/hostile_names.h"
#include "support/learning_models.h"

namespace etrace::testing {
namespace {

constexpr const char* kHelp =
    R"(usage: fuzz_names [options]
  --seed N       of the first round (default 1); the rounds are N, N+1, …
  --count N      names (default 100000)
  --seconds S    stop after so many seconds (default: none)
  --jobs J       worker processes (default: the cores)
)";

struct Settings {
  std::uint64_t seed = 1, count = 100000;
  double seconds = 0.0;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
};

Settings parse_arguments(int argc, char** argv) {
  Settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      std::cout << kHelp;
      std::exit(0);
    }
    if (i + 1 >= argc) throw ValueError("fuzz_names", std::string(option) + " needs a value");
    const std::string value = argv[++i];
    if (option == "--seed")
      s.seed = std::stoull(value);
    else if (option == "--count")
      s.count = std::stoull(value);
    else if (option == "--seconds")
      s.seconds = std::stod(value);
    else if (option == "--jobs")
      s.jobs = std::max<std::size_t>(1, std::stoull(value));
    else
      throw ValueError("fuzz_names", fmt::format("unknown option {}\n{}", option, kHelp));
  }
  return s;
}

struct Counts {
  std::uint64_t names = 0, rounds = 0, texts = 0, exported = 0, failures = 0;
};

class Worker {
 public:
  Worker(const Settings& s, std::size_t number) : s_(s), number_(number) {}

  Counts run() {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t k = number_; c_.names * s_.jobs < s_.count; k += s_.jobs) {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (s_.seconds > 0 && spent.count() > s_.seconds) break;
      const std::uint64_t seed = s_.seed + k;
      try {
        round(seed);
      } catch (const std::exception& e) {
        say(seed, e.what());
      }
      ++c_.rounds;
    }
    return c_;
  }

 private:
  // A model and a rule; then many names for each of their programs, and some for the model itself.
  void round(std::uint64_t seed) {
    Dice dice(seed);
    const std::vector<OperatorCase>& cases = operator_cases();
    const Model m = dice.chance(0.5) ? operator_model(dice.of(cases), kStructures[dice.below(4)], seed)
                                     : to_model(draw_model(seed));
    const auto rule = dice.of(rule_rows())->make({});
    std::vector<Program> programs;
    try {
      programs = learner_programs(m, *rule);
    } catch (const Error&) {  // the rule does not take such a model
      return;
    }
    const Program& p = dice.of(programs);
    Renaming plain = plain_names(), bare = bare_names(dice);
    std::vector<emit::EmitProgram> all = built(renamed(p, plain));
    const Texts expected = printed(all);
    compare(seed, dice, expected, printed(built(renamed(p, bare))), bare);
    for (int k = 0; k < 20; ++k) {
      Renaming other = bare_names(dice);
      for (emit::EmitProgram& each : all) each = renamed(std::move(each), other);
      compare(seed, dice, expected, printed(all), other);
    }
    Renaming plain_model = plain_names(), hostile = hostile_names(dice);
    const Model a = renamed(m, plain_model), b = renamed(m, hostile);
    if (dice.chance(0.5)) {
      const std::vector<Program> first = learner_programs(a, *rule), second = learner_programs(b, *rule);
      const std::size_t k = dice.below(first.size());
      compare(seed, dice, printed(built(first[k])), printed(built(second.at(k))), hostile);
    } else {
      const Texts first = exported_texts(a, *rule, "sgd");
      compare(seed, dice, first, exported_texts(b, *rule, "sgd"), hostile);
      c_.exported += first.empty() ? 0 : 1;
    }
  }
  void compare(std::uint64_t seed, Dice& dice, const Texts& plain, const Texts& hostile,
               const Renaming& names) {
    c_.names += names.count();
    c_.texts += plain.size();
    const std::span<const CLanguage> language(&c_languages()[dice.below(c_languages().size())], 1);
    if (const std::string found = difference_of_texts(plain, hostile, language); !found.empty())
      say(seed, found);
  }
  void say(std::uint64_t seed, const std::string& what) {
    if (++c_.failures <= 3) std::cerr << fmt::format("round --seed {}: {}\n", seed, what);
  }

  const Settings s_;
  const std::size_t number_;
  Counts c_;
};

int run(const Settings& s) {
  const auto start = std::chrono::steady_clock::now();
  int ends[2];
  if (::pipe(ends) != 0) throw IoError("fuzz_names", "no pipe");
  for (std::size_t j = 0; j < s.jobs; ++j)
    if (::fork() == 0) {
      const Counts c = Worker(s, j).run();
      const bool written = ::write(ends[1], &c, sizeof c) == sizeof c;
      ::_exit(written ? 0 : 1);
    }
  ::close(ends[1]);
  Counts all;
  std::size_t answers = 0;
  for (Counts c; ::read(ends[0], &c, sizeof c) == sizeof c; ++answers) {
    all.names += c.names, all.rounds += c.rounds, all.texts += c.texts;
    all.exported += c.exported, all.failures += c.failures;
  }
  while (::wait(nullptr) > 0) {
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  std::cout << fmt::format("{} names in {} rounds, {} texts ({} exported learners), {} failures, {:.0f} s\n",
                           all.names, all.rounds, all.texts, all.exported, all.failures, spent.count());
  if (answers != s.jobs) std::cout << fmt::format("{} of {} workers died\n", s.jobs - answers, s.jobs);
  return all.failures == 0 && answers == s.jobs && all.names > 0 ? 0 : 1;
}

}  // namespace
}  // namespace etrace::testing

int main(int argc, char** argv) {
  try {
    return etrace::testing::run(etrace::testing::parse_arguments(argc, argv));
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
