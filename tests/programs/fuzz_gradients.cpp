// Random models without end, each judged against BPTT and RTRL (support/gradient_judge.h). What fails is made
// smaller and written as a model file. `./dev fuzz gradients` builds and runs it; --help lists the options.
//
// Every model is judged in a worker process: a crash or a model without end is one finding, and the others go
// on.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

#include "etrace/backend.h"
#include "etrace/error.h"
#include "support/shrink_model.h"

namespace etrace::testing {
namespace {

constexpr unsigned kSecondsPerModel = 300;  // shrinking included

constexpr const char* kHelp =
    R"(usage: fuzz_gradients [options]
  --seed N       of the first model (default 1); the models are N, N+1, …
  --count N      models (default 1000)
  --seconds S    stop after so many seconds (default: none)
  --jobs J       worker processes (default: the cores)
  --rules R      learning rules per model, chosen by its seed (default 2); all: every one
  --rule LABEL   this rule alone, as the summary writes it
  --out DIR      where failures go (default build/fuzz-gradients)
  --without TEXT findings whose kind holds this text do not count
  --shrink N     failures of one kind that each worker makes smaller (default 2)
  --backend B    of the learners (default interpreter)
  --show         prints the models of these seeds and what is found, in one process
  --model FILE   judges a model file under every rule instead
)";

struct Settings {
  std::uint64_t seed = 1, count = 1000;
  double seconds = 0.0;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency()), rules = 2, shrink = 2;
  std::string rule, without, out = "build/fuzz-gradients", backend = "interpreter", model;
  bool show = false;
};

Settings parse_arguments(int argc, char** argv) {
  Settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw ValueError("fuzz_gradients", std::string(option) + " needs a value");
      return argv[++i];
    };
    const auto number = [&] {
      const std::string text = value();
      std::size_t used = 0;
      std::uint64_t n = 0;
      try {
        n = std::stoull(text, &used);
      } catch (const std::exception&) {
        used = 0;
      }
      if (used != text.size() || text.empty())
        throw ValueError("fuzz_gradients", fmt::format("{} takes a whole number, not \"{}\"", option, text));
      return n;
    };
    if (option == "--seed")
      s.seed = number();
    else if (option == "--count")
      s.count = number();
    else if (option == "--seconds")
      s.seconds = static_cast<double>(number());
    else if (option == "--jobs")
      s.jobs = std::max<std::size_t>(1, number());
    else if (option == "--rules" && i + 1 < argc && std::string_view(argv[i + 1]) == "all")
      s.rules = rule_choices().size(), ++i;
    else if (option == "--rules")
      s.rules = number();
    else if (option == "--rule")
      s.rule = value();
    else if (option == "--without")
      s.without = value();
    else if (option == "--out")
      s.out = value();
    else if (option == "--shrink")
      s.shrink = number();
    else if (option == "--backend")
      s.backend = value();
    else if (option == "--show")
      s.show = true;
    else if (option == "--model")
      s.model = value();
    else if (option == "--help") {
      std::cout << kHelp;
      std::exit(0);
    } else
      throw ValueError("fuzz_gradients", fmt::format("no option {}; see --help", option));
  }
  return s;
}

JudgeOptions asked(const ModelDescription& m, std::uint64_t seed, const Settings& s) {
  JudgeOptions o = options_for(m, seed, s.rules);
  o.backend = s.backend;
  o.first_step = rule_choices();
  if (s.rule.empty()) return o;
  o.rules.clear();
  o.first_step.clear();
  std::vector<std::string> labels;
  for (const RuleChoice& r : rule_choices()) {
    labels.push_back(r.label);
    if (r.label == s.rule) o.rules.push_back(r);
  }
  if (o.rules.empty())
    throw ValueError("fuzz_gradients",
                     fmt::format("no rule {}; there are: {}", s.rule, fmt::join(labels, "; ")));
  return o;
}

// Workers ---------------------------------------------------------------------------------------------------
// One line per event, to the process that counts:
//   start SEED
//   found CLASS \t RULE \t TEXT
//   file CLASS \t PATH
//   refused RULE: WHY
//   end EXACT APPROXIMATE POSSIBLY NO_STATEMENT DEAD REFUSED NOT_FINITE DIFFERENCES KINKS FIRST_STEPS
class Reporter {
 public:
  explicit Reporter(int fd) : fd_(fd) {}
  void line(std::string text) const {
    std::replace(text.begin(), text.end(), '\n', ' ');
    text += '\n';
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
      if (n <= 0) std::_Exit(3);
      done += static_cast<std::size_t>(n);
    }
  }

 private:
  int fd_;
};

std::string file_name(const std::string& what, const std::string& rule, std::uint64_t seed) {
  std::string out;
  for (const char c : what.substr(0, 60) + "-" + rule)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += c;
    else if (!out.empty() && out.back() != '_')
      out += '_';
  return fmt::format("{}-{}", out, seed);
}

void write_case(const MinimalCase& c, const JudgeOptions& o, std::uint64_t seed, const std::string& stem) {
  std::ofstream(stem + ".txt") << fmt::format("{}\nfrom seed {}\n\n{}", to_string(c.finding), seed,
                                              to_string(c.model));
  std::ofstream(stem + ".json") << report_file(c, o);
}

void judge_seed(std::uint64_t seed, const Settings& s, const Reporter& report,
                std::map<std::string, std::size_t>& shrunk) {
  report.line(fmt::format("start {}", seed));
  ::alarm(kSecondsPerModel);
  const ModelDescription m = draw_model(seed);
  const JudgeOptions o = asked(m, seed, s);
  const Judgement j = judge(to_model(m), o);
  std::map<std::string, const Finding*> first;
  for (const Finding& f : j.findings)
    if (s.without.empty() || class_of(f).find(s.without) == std::string::npos) first.emplace(class_of(f), &f);
  for (const auto& [what, f] : first) {
    report.line(fmt::format("found {}\t{}\t{}", what, f->rule, to_string(*f)));
    if (shrunk[what]++ >= s.shrink) continue;
    const std::string stem = s.out + "/" + file_name(what, f->rule, seed);
    write_case(minimal_case(m, *f, o), o, seed, stem);
    report.line(fmt::format("file {}\t{}.json", what, stem));
  }
  for (const std::string& r : j.refusals) report.line("refused " + r);
  report.line(fmt::format("end {} {} {} {} {} {} {} {} {} {}", j.exact, j.approximate, j.possibly,
                          j.no_statement, j.dead, j.refused, j.not_finite ? 1 : 0, j.differences, j.kinks,
                          j.first_steps));
}

// Every jobs-th seed from `first` on.
[[noreturn]] void work(std::uint64_t first, std::uint64_t end, const Settings& s, int fd) {
  const Reporter report(fd);
  std::map<std::string, std::size_t> shrunk;
  for (std::uint64_t seed = first; seed < end; seed += s.jobs) {
    try {
      judge_seed(seed, s, report, shrunk);
    } catch (const std::exception& e) {
      report.line(fmt::format("found the judge itself failed\t-\t{}", e.what()));
      report.line("end 0 0 0 0 0 0 0 0 0 0");
    }
  }
  std::_Exit(0);
}

// The counting process --------------------------------------------------------------------------------------
struct Worker {
  pid_t pid = -1;
  int fd = -1;
  std::string buffer;
  std::uint64_t seed = 0;  // the last that it began
  bool busy = false;
};

struct ClassCount {
  std::uint64_t count = 0, first_seed = 0;
  std::map<std::string, std::uint64_t> rules;
  std::string text, file;
};

class Run {
 public:
  explicit Run(const Settings& s) : s_(s), begin_(std::chrono::steady_clock::now()) {
    std::filesystem::create_directories(s_.out);
    log_.open(s_.out + "/failures.txt", std::ios::app);
  }

  int operator()() {
    std::cout << fmt::format("models {} to {}, {} rules each, {} processes\n", s_.seed,
                             s_.seed + s_.count - 1, s_.rules, s_.jobs)
              << std::flush;
    for (std::size_t k = 0; k < s_.jobs; ++k) workers_.push_back(start(s_.seed + k));
    while (step()) {
    }
    return summary();
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  Worker start(std::uint64_t first) {
    int ends[2];
    if (::pipe(ends) != 0) throw IoError("fuzz_gradients", "no pipe to a worker");
    const pid_t pid = ::fork();
    if (pid < 0) throw IoError("fuzz_gradients", "no worker process");
    if (pid == 0) {
      ::close(ends[0]);
      for (const Worker& w : workers_)
        if (w.fd >= 0) ::close(w.fd);
      work(first, s_.seed + s_.count, s_, ends[1]);
    }
    ::close(ends[1]);
    return {pid, ends[0], "", first, false};
  }

  // False when all is done.
  bool step() {
    std::vector<pollfd> open;
    for (const Worker& w : workers_)
      if (w.fd >= 0) open.push_back({w.fd, POLLIN, 0});
    if (open.empty()) return false;
    if (s_.seconds > 0.0 && elapsed() > s_.seconds) {
      for (Worker& w : workers_) stop(w);
      return false;
    }
    ::poll(open.data(), open.size(), 200);
    for (Worker& w : workers_)
      for (const pollfd& p : open)
        if (p.fd == w.fd && p.revents != 0) read(w);
    if (elapsed() > next_note_) {
      std::cout << fmt::format("{} models in {:.0f} s, {} with findings\n", models_, elapsed(),
                               with_findings_)
                << std::flush;
      next_note_ = elapsed() + 60.0;
    }
    return true;
  }

  void stop(Worker& w) {
    if (w.fd < 0) return;
    ::kill(w.pid, SIGKILL);
    ::waitpid(w.pid, nullptr, 0);
    ::close(w.fd);
    w.fd = -1;
  }

  void read(Worker& w) {
    char bytes[65536];
    const ssize_t n = ::read(w.fd, bytes, sizeof bytes);
    if (n > 0) {
      w.buffer.append(bytes, static_cast<std::size_t>(n));
      for (std::size_t end; (end = w.buffer.find('\n')) != std::string::npos; w.buffer.erase(0, end + 1))
        event(w, w.buffer.substr(0, end));
      return;
    }
    int status = 0;
    ::waitpid(w.pid, &status, 0);
    ::close(w.fd);
    w.fd = -1;
    if (!w.busy) return;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    count(w.seed, signal == SIGALRM ? fmt::format("no end within {} s", kSecondsPerModel) : "crash", "-",
          signal != 0 ? fmt::format("signal {}", signal) : "the process ended");
    ++models_;
    if (w.seed + s_.jobs < s_.seed + s_.count) w = start(w.seed + s_.jobs);
  }

  void event(Worker& w, const std::string& line) {
    const std::size_t blank = line.find(' ');
    const std::string what = line.substr(0, blank), rest = line.substr(blank + 1);
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= rest.size();) {
      const std::size_t end = std::min(rest.find('\t', begin), rest.size());
      parts.push_back(rest.substr(begin, end - begin));
      begin = end + 1;
    }
    if (what == "start") {
      w.seed = std::stoull(rest);
      w.busy = true;
    } else if (what == "found") {
      count(w.seed, parts.at(0), parts.at(1), parts.at(2));
    } else if (what == "file") {
      if (std::string& file = classes_[parts.at(0)].file; file.empty()) file = parts.at(1);
    } else if (what == "refused") {
      // By what is said, without the names and numbers of one model.
      const std::size_t why = rest.find(": [");
      std::string text = why == std::string::npos ? rest : rest.substr(why + 2);
      text = text.substr(0, text.find_first_of("0123456789'\"", text.find(']')));
      ++refusals_[text.substr(0, 90)];
    } else if (what == "end") {
      w.busy = false;
      ++models_;
      std::size_t begin = 0;
      for (std::uint64_t& total : totals_) {
        std::size_t used = 0;
        total += std::stoull(rest.substr(begin), &used);
        begin += used;
      }
    }
  }

  void count(std::uint64_t seed, const std::string& what, const std::string& rule, const std::string& text) {
    ClassCount& c = classes_[what];
    if (c.count++ == 0) {
      c.first_seed = seed;
      c.text = text;
    }
    ++c.rules[rule];
    if (last_found_ != seed) ++with_findings_;
    last_found_ = seed;
    log_ << seed << '\t' << what << '\t' << rule << '\t' << text << std::endl;
  }

  int summary() const {
    const double seconds = elapsed();
    std::cout << fmt::format(
        "{} models in {:.0f} s, {:.1f} per second; leaves compared: {} exact, {} approximate, "
        "{} possibly approximate, {} without a statement, {} with no gradient, {} at a first step; {} runs "
        "refused, {} models "
        "not finite; {} also by differences, {} not differentiable where differences were taken\n",
        models_, seconds, static_cast<double>(models_) / seconds, totals_[0], totals_[1], totals_[2],
        totals_[3], totals_[4], totals_[9], totals_[5], totals_[6], totals_[7], totals_[8]);
    for (const auto& [what, c] : classes_) {
      std::vector<std::string> rules;
      for (const auto& [rule, n] : c.rules) rules.push_back(fmt::format("{} ({})", rule, n));
      std::cout << fmt::format("{:6} {}; first seed {}; {}{}\n", c.count, what, c.first_seed,
                               fmt::join(rules, ", "), c.file.empty() ? "" : "; " + c.file);
    }
    for (const auto& [why, n] : refusals_) std::cout << fmt::format("{:6} runs refused: {}\n", n, why);
    if (classes_.empty()) std::cout << "nothing found\n";
    return classes_.empty() ? 0 : 1;
  }

  const Settings& s_;
  std::chrono::steady_clock::time_point begin_;
  std::ofstream log_;
  std::vector<Worker> workers_;
  std::map<std::string, ClassCount> classes_;
  std::uint64_t models_ = 0, with_findings_ = 0, last_found_ = ~std::uint64_t{0};
  std::map<std::string, std::uint64_t> refusals_;
  std::uint64_t totals_[10] = {};
  double next_note_ = 60.0;
};

// In one process --------------------------------------------------------------------------------------------
void print(const Judgement& j) {
  for (const Finding& f : j.findings) std::cout << to_string(f) << "\n";
  for (const std::string& r : j.refusals) std::cout << "refused: " << r << "\n";
  std::cout << fmt::format(
      "{} leaves exact, {} approximate, {} possibly approximate, {} without a statement, {} with no "
      "gradient{}\n\n",
      j.exact, j.approximate, j.possibly, j.no_statement, j.dead,
      j.not_finite ? "; the reference is not finite" : "");
}

int show(const Settings& s) {
  bool found = false;
  for (std::uint64_t seed = s.seed; seed < s.seed + s.count; ++seed) {
    const ModelDescription m = draw_model(seed);
    std::cout << "seed " << seed << "\n" << to_string(m) << std::flush;
    const JudgeOptions o = asked(m, seed, s);
    const Judgement j = judge(to_model(m), o);
    print(j);
    std::map<std::string, const Finding*> first;
    for (const Finding& f : j.findings) first.emplace(class_of(f), &f);
    for (const auto& [what, f] : first) {
      const MinimalCase c = minimal_case(m, *f, o);
      std::cout << "smaller:\n" << to_string(c.model) << to_string(c.finding) << "\n\n";
    }
    found = found || !j.findings.empty();
  }
  return found ? 1 : 0;
}

int judge_file(const Settings& s) {
  JudgeOptions o = asked({}, s.seed, s);
  if (s.rule.empty()) o.rules = rule_choices();
  o.execution_windows = {1, 2, 3};
  o.windows = {1, 2, 3};
  o.whole_sequence = true;
  const Judgement j = judge(read_model_file(s.model), o);
  print(j);
  return j.findings.empty() ? 0 : 1;
}

int run(int argc, char** argv) {
  const Settings s = parse_arguments(argc, argv);
  if (!s.model.empty()) return judge_file(s);
  if (s.show) return show(s);
  return Run(s)();
}

}  // namespace
}  // namespace etrace::testing

int main(int argc, char** argv) {
  try {
    return etrace::testing::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
