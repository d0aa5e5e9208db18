#include "train/many_runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "base/child.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/spawn.h"
#include "etrace/error.h"
#include "train/evaluator.h"
#include "train/run_folder.h"

namespace etrace::train {

namespace {

namespace fs = std::filesystem;

std::optional<Json> status_of(const std::string& folder) {
  if (!RunFolder::is_run(folder)) return std::nullopt;
  try {
    std::optional<Json> out = json_of(read_file(folder + "/run.json"));
    return out && out->is_object() ? std::move(out) : std::nullopt;
  } catch (const IoError&) {
    return std::nullopt;
  }
}
std::optional<Json> finished(const std::string& folder) {
  std::optional<Json> status = status_of(folder);
  return status && said_text(*status, "/status") == "done" ? status : std::nullopt;
}

std::string last_line(const std::string& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const IoError&) {
    return "it said nothing";
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t at = text.rfind('\n');
  return at == std::string::npos ? text : text.substr(at + 1);
}

// Says to a process that we start who that was.
constexpr const char* kStarter = "ETRACE_STARTED_BY";

// Environment of a process, with some variables replaced.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& values) {
  std::vector<std::string> out;
  for (const auto& [name, value] : values) out.push_back(name + "=" + value);
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view each(*e);
    if (!values.contains(std::string(each.substr(0, each.find('='))))) out.emplace_back(each);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& w : words) out.push_back(w.data());
  out.push_back(nullptr);
  return out;
}

// In a process group of its own: Ctrl-C is for this process, which passes it on once.
pid_t start(const std::string& program, std::vector<std::string> words, std::vector<std::string> environment,
            const std::string& output) {
  words.insert(words.begin(), program);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0666);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  close_inherited_files(actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), &actions, &attributes, pointers(words).data(),
                                pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw IoError("train", fmt::format("'{}' cannot be started: {}", program, std::strerror(error)));
  return child;
}

// The processes of a call. Whatever is left of them is ended with it.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    for (const auto& [pid, job] : running_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  void add(pid_t pid, std::size_t job) { running_[pid] = job; }
  std::size_t count() const { return running_.size(); }
  void interrupt() const {
    for (const auto& [pid, job] : running_) ::kill(pid, SIGTERM);
  }
  // The job of a process that has ended; none: nothing ended until now.
  std::optional<std::size_t> ended() {
    for (const auto& [pid, job] : running_) {
      if (::waitpid(pid, nullptr, WNOHANG) == 0) continue;
      const std::size_t out = job;
      running_.erase(pid);
      return out;
    }
    return std::nullopt;
  }

 private:
  std::map<pid_t, std::size_t> running_;
};

}  // namespace

bool keep_with_starter() {
  const char* starter = std::getenv(kStarter);
  if (starter == nullptr) return true;
  const bool lives = end_with_parent(std::atoi(starter));
  unsetenv(kStarter);  // what this process starts is its own
  return lives;
}

std::string own_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error)
    throw IoError("train", fmt::format("the place of this program is not known: {}", error.message()));
  return path.string();
}

std::int64_t processors() { return std::max<std::int64_t>(1, std::thread::hardware_concurrency()); }

std::string ManyRuns::made_otherwise(const std::vector<RunJob>& jobs) const {
  for (const RunJob& job : jobs) {
    const std::optional<Json> status = status_of(folder + "/" + job.name);
    const Json* command = status ? json_member(*status, "/command") : nullptr;
    if (command == nullptr) continue;
    std::vector<std::string> words;
    for (const std::string& text :
         said<std::vector<std::string>>(*command, "").value_or(std::vector<std::string>{})) {
      const bool ours =
          text == "train" || text == "--quiet" || text.starts_with("--runs=") || text.starts_with("--name=");
      if (!ours) words.push_back(text);
    }
    const bool went_on = words.size() == 2 && words[1] == "--resume";
    if (!went_on && words != job.words) return job.name;
  }
  return {};
}

std::vector<RunOutcome> ManyRuns::operator()(const std::vector<RunJob>& jobs) const {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError("train", fmt::format("'{}' cannot be made: {}", folder, error.message()));
  std::vector<RunOutcome> out(jobs.size());
  const std::vector<std::string> environment = environment_with(
      {{"ETRACE_THREADS", std::to_string(threads_each)}, {kStarter, std::to_string(getpid())}});
  const auto log_of = [&](const RunJob& job) { return fmt::format("{}/{}.txt", folder, job.name); };
  Children children;
  std::size_t next = 0;
  bool stopped = false;
  while (next < jobs.size() || children.count() > 0) {
    if (!stopped && stop_requested && stop_requested()) {
      stopped = true;
      children.interrupt();
    }
    if (stopped && children.count() == 0) break;
    if (!stopped && next < jobs.size() && children.count() < static_cast<std::size_t>(at_once)) {
      const RunJob& job = jobs[next];
      const std::string run = folder + "/" + job.name;
      if (const std::optional<Json> done = finished(run)) {
        out[next] = {done, {}, true};
        if (on_end) on_end(next, out[next]);
        ++next;
        continue;
      }
      std::vector<std::string> words{"train"};
      const std::optional<Json> begun = status_of(run);
      if (!begun && RunFolder::is_run(run)) {
        out[next].error =
            fmt::format("'{}/run.json' cannot be read; remove the folder to begin it again", run);
        if (on_end) on_end(next, out[next]);
        ++next;
        continue;
      }
      if (begun) {
        words.insert(words.end(), {run, "--resume"});
      } else {
        fs::remove_all(run, error);  // what a process left that never began its work
        words.insert(words.end(), job.words.begin(), job.words.end());
        words.insert(words.end(), {"--runs=" + folder, "--name=" + job.name});
      }
      words.emplace_back("--quiet");
      children.add(start(program, words, environment, log_of(job)), next++);
      continue;
    }
    const std::optional<std::size_t> job = children.ended();
    if (!job) {
      ::usleep(20000);
      continue;
    }
    out[*job].run = finished(folder + "/" + jobs[*job].name);
    if (!out[*job].run && !stopped) out[*job].error = last_line(log_of(jobs[*job]));
    if (on_end && !stopped) on_end(*job, out[*job]);
  }
  return out;
}

RunGroup::Number number_of(const std::vector<RunOutcome>& runs, const char* pointer) {
  RunGroup::Number out;
  std::vector<double> values;
  for (const RunOutcome& r : runs)
    if (const auto value = r.run ? said<double>(*r.run, pointer) : std::nullopt) values.push_back(*value);
  out.count = static_cast<std::int64_t>(values.size());
  if (values.empty()) return out;
  for (const double v : values) out.mean += v / static_cast<double>(values.size());
  double square = 0.0;
  for (const double v : values) square += (v - out.mean) * (v - out.mean);
  if (values.size() > 1) out.spread = std::sqrt(square / static_cast<double>(values.size() - 1));
  return out;
}

RunGroup group_of(std::string name, const std::vector<RunOutcome>& runs) {
  RunGroup g{.name = std::move(name)};
  g.accuracy = number_of(runs, "/final/accuracy");
  g.loss = number_of(runs, "/final/loss");
  g.updates = number_of(runs, "/updates");
  g.seconds = number_of(runs, "/seconds");
  g.processor_seconds = number_of(runs, "/processor_seconds");
  g.memory = number_of(runs, "/peak_memory_bytes");
  g.traces = number_of(runs, "/trace_bytes");
  g.cosine_start = number_of(runs, "/fidelity/start/cosine");
  g.cosine_end = number_of(runs, "/fidelity/end/cosine");
  for (const RunOutcome& r : runs)
    if (!r.error.empty()) g.failures.push_back(r.error);
  return g;
}

OrderedJson to_json(const RunGroup& g) {
  OrderedJson out{{"name", g.name}};
  const auto add = [&](const char* key, const RunGroup::Number& n) {
    if (n.count > 0) out[key] = {{"mean", n.mean}, {"spread", n.spread}, {"runs", n.count}};
  };
  add("accuracy", g.accuracy);
  add("loss", g.loss);
  add("updates", g.updates);
  add("seconds", g.seconds);
  add("processor_seconds", g.processor_seconds);
  add("peak_memory_bytes", g.memory);
  add("trace_bytes", g.traces);
  add("cosine_start", g.cosine_start);
  add("cosine_end", g.cosine_end);
  if (!g.failures.empty()) out["failures"] = g.failures;
  return out;
}

namespace {
std::string with_spread(const RunGroup::Number& n, int digits) {
  if (n.count == 0) return "-";
  const std::string mean = fmt::format("{:.{}f}", n.mean, digits);
  return n.count > 1 ? fmt::format("{} ± {:.{}f}", mean, n.spread, digits) : mean;
}
std::string plain(const RunGroup::Number& n, int digits) {
  return n.count == 0 ? "-" : fmt::format("{:.{}f}", n.mean, digits);
}
std::string bytes_of(const RunGroup::Number& n) {
  return n.count == 0 ? "-" : bytes_text(static_cast<std::int64_t>(n.mean));
}
// Columns as wide as their widest cell, of which a ± has two bytes and one place.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  const auto places = [](const std::string& s) {
    return static_cast<std::size_t>(
        std::count_if(s.begin(), s.end(), [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
  };
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], places(row[i]));
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - places(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}
}  // namespace

std::string groups_text(const std::vector<RunGroup>& groups, const std::string& first) {
  const bool labels =
      std::any_of(groups.begin(), groups.end(), [](const RunGroup& g) { return g.accuracy.count > 0; });
  std::vector<std::vector<std::string>> rows{{first, labels ? "accuracy" : "loss", "updates", "seconds",
                                              "of processor", "memory", "traces", "cosine, start", "end"}};
  for (const RunGroup& g : groups)
    rows.push_back(
        {g.name,
         labels
             ? with_spread(g.accuracy, 4)
             : (g.loss.count == 0 ? "-"
                                  : fmt::format("{} ± {}", loss_text(g.loss.mean), loss_text(g.loss.spread))),
         plain(g.updates, 0), plain(g.seconds, 1), plain(g.processor_seconds, 1), bytes_of(g.memory),
         bytes_of(g.traces), with_spread(g.cosine_start, 3), with_spread(g.cosine_end, 3)});
  std::string text = aligned(rows);
  for (const RunGroup& g : groups)
    for (const std::string& f : g.failures) text += fmt::format("{} failed: {}\n", g.name, f);
  return text;
}

}  // namespace etrace::train
