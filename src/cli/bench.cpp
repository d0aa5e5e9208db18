// etrace bench: what this machine can do at most, and in the same run what learning takes of it.
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>
#include <set>
#include <thread>

#include "bench/bench_run.h"
#include "bench/device_run.h"
#include "bench/workloads.h"
#include "cli/engine.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "etrace/version.h"
#include "io/json.h"

namespace etrace::cli {

namespace {

using bench::ExecutionForm;
using bench::Limits;
using bench::Measured;
using bench::Row;
using bench::Rule;

constexpr const char* kChosen = "chosen";

struct BenchArguments {
  std::vector<std::string> parts, only, rules, forms, backends;
  std::vector<std::int64_t> batches, threads;
  std::int64_t steps = 1'000'000;
  std::string window = kChosen;
  std::int64_t window_steps() const { return window == kChosen ? 0 : std::stoll(window); }
  bool quick = false, latency = false;
  std::string json;
};

const std::vector<std::string> kParts{"machine", "workloads", "length",  "size",
                                      "sparse",  "start",     "latency", "device"};
const std::vector<std::string> kWorks{"W1", "W2", "W3", bench::kW3Saturated, "W5", "W6"};
const std::vector<Rule> kRules{Rule::DRtrl, Rule::PpProp, Rule::MultiStep, Rule::Bptt};

template <class T>
bool wants(const std::vector<T>& chosen, const T& one) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), one) != chosen.end();
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

// One run of the verb: prints as it goes, and keeps everything for --json.
class Bench {
 public:
  explicit Bench(const BenchArguments& o) : o_(o), least_(o.quick ? 0.05 : 0.4) {
    const int all = default_threads();
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{all}})
      if (wants(o.threads, n) && std::find(threads_.begin(), threads_.end(), n) == threads_.end())
        threads_.push_back(static_cast<int>(n));
    for (const std::int64_t n : o.threads)
      if (std::find(threads_.begin(), threads_.end(), n) == threads_.end())
        threads_.push_back(static_cast<int>(n));
    for (const int n : threads_) limits_.emplace(n, std::make_unique<Limits>(n));
  }

  // The exit status: 0, or that of Ctrl-C, which stops between two rows.
  int run() {
    out_ = {{"format", "etrace.bench"}, {"version", version()}, {"date", today()},
            {"cpu", cpu_name()},        {"threads", threads_},  {"quick", o_.quick}};
    say(fmt::format("etrace {}, {}, {}, {} threads at most{}\n", version(), today(), cpu_name(),
                    default_threads(), o_.quick ? ", quick" : ""));
    const auto part = [&](const char* name, void (Bench::*f)()) {
      if (is_part(name)) (this->*f)();
    };
    try {
      part("machine", &Bench::machine);
      part("workloads", &Bench::workloads);
      part("length", &Bench::length);
      part("size", &Bench::size);
      part("sparse", &Bench::sparse);
      part("start", &Bench::start);
      part("latency", &Bench::latency);
      part("device", &Bench::device);
    } catch (const Stopped&) {
      out_["stopped"] = true;
      say(fmt::format("\nstopped; {}\n", o_.json.empty() ? "with --json FILE what was measured is kept"
                                                         : "what was measured is kept"));
    }
    if (!o_.json.empty()) write_output(o_.json, json_text(out_, 1) + "\n");
    return interrupt_.requested() ? interrupt_.exit_code() : 0;
  }

 private:
  struct Stopped {};
  void keep(const std::string& part, OrderedJson row) {
    out_[part].push_back(std::move(row));
    if (interrupt_.requested()) throw Stopped();
  }
  bool is_part(const std::string& name) const {
    if (o_.latency) return name == "latency";
    if (o_.parts.empty()) return name != "latency" && name != "device";
    return wants(o_.parts, name);
  }
  void say(const std::string& text) const {
    (o_.json == kStandardOutput ? std::cerr : std::cout) << text << std::flush;
  }

  void machine() {
    say("\nwhat the machine can do, measured now\n"
        "          read-modify-write        copy   multiply-add   hand-over, µs, after the caller was alone "
        "for\n"
        "threads                 GB/s        GB/s        GFLOP/s               5 µs           100 µs\n");
    for (const int n : threads_) {
      Limits& l = *limits_.at(n);
      const double update = l.update_bandwidth() * 1e-9, copy = l.copy_bandwidth() * 1e-9,
                   fma = l.fma_rate() * 1e-9, soon = l.hand_over(5e-6) * 1e6, late = l.hand_over(1e-4) * 1e6;
      say(fmt::format("{:>7}   {:>18.1f}   {:>9.1f}   {:>12.0f}   {:>16.1f}   {:>14.1f}\n", n, update, copy,
                      fma, soon, late));
      keep("machine", {{"threads", n},
                       {"update_GBps", update},
                       {"copy_GBps", copy},
                       {"fma_GFLOPs", fma},
                       {"hand_over_us", soon},
                       {"late_hand_over_us", late}});
    }
  }

  std::vector<std::int64_t> batches_of(const std::string& work) const {
    if (work == "W5") return {1};
    if (work == "W6") return {8};
    if (!o_.batches.empty()) return o_.batches;
    return o_.quick ? std::vector<std::int64_t>{1, 32} : std::vector<std::int64_t>{1, 32, 128};
  }

  // Unless it is asked for, W3 saturated has one row: that in which its spikes cost most.
  bool is_wanted(const Row& row) const {
    if (!wants(o_.only, row.work) || !wants(o_.rules, std::string(name(row.rule))) ||
        !wants(o_.forms, std::string(name(row.form))))
      return false;
    const bool extra = row.work == bench::kW3Saturated && o_.only.empty();
    return !extra || (row.rule == Rule::PpProp && row.form == ExecutionForm::Window &&
                      row.batch == batches_of(row.work).back());
  }

  std::vector<Row> rows() const {
    std::vector<Row> out;
    for (const std::string& work : kWorks)
      for (const Rule rule : kRules)
        for (const std::int64_t batch : batches_of(work))
          for (const ExecutionForm form : {ExecutionForm::Step, ExecutionForm::Window}) {
            // Windows with reverse mode inside, and reverse mode over everything, have no other form.
            if (form == ExecutionForm::Step && (rule == Rule::MultiStep || rule == Rule::Bptt)) continue;
            const Row row{.work = work, .rule = rule, .batch = batch, .form = form};
            if (is_wanted(row)) out.push_back(row);
          }
    return out;
  }

  void workloads() {
    say(fmt::format(
        "\nmicroseconds per step with its gradient; K steps at once, {}. limit: the products at the rate of "
        "multiply-adds, or\none read-modify-write pass over the traces per window, by as many threads\n"
        "{:<13}{:<11}{:>5}  {:<7}{:<12}{:>7}{:>5}{:>11}{:>11}{:>8}{:>11}{:>10}\n",
        o_.window == kChosen ? "as the learner chooses" : "as asked for", "", "rule", "batch", "form",
        "engine", "threads", "K", "us/step", "limit", "ratio", "traces MB", "grown MB"));
    for (Row row : rows())
      for (const std::string& backend :
           {std::string("interpreter"), std::string("native"), std::string(kDevice)})
        for (const int n : threads_) {
          if (o_.backends.empty() ? backend == kDevice : !wants(o_.backends, backend)) continue;
          row.backend = backend;
          row.threads = n;
          row.window = o_.window_steps();
          one(row);
        }
  }

  void one(const Row& row) {
    const std::string title = fmt::format("{:<13}{:<11}{:>5}  {:<7}{:<12}{:>7}", row.work, name(row.rule),
                                          row.batch, name(row.form), row.backend, row.threads);
    OrderedJson entry{{"work", row.work},       {"rule", name(row.rule)}, {"batch", row.batch},
                      {"form", name(row.form)}, {"backend", row.backend}, {"threads", row.threads}};
    try {
      const Measured m = measure(row, *limits_.at(row.threads), least_);
      say(fmt::format("{}{:>5}{:>11.1f}{:>11.1f}{:>8.2f}{:>11.2f}{:>10.1f}\n", title, m.window,
                      m.seconds_per_step * 1e6, m.limit * 1e6, m.seconds_per_step / m.limit,
                      static_cast<double>(m.trace_bytes) * 1e-6, static_cast<double>(m.grown_bytes) * 1e-6));
      add_numbers(entry, m);
    } catch (const NotSupportedError& e) {
      say(fmt::format("{}  {}\n", title, e.what()));
      entry["refused"] = e.what();
    }
    keep("workloads", entry);
  }
  static void add_numbers(OrderedJson& entry, const Measured& m) {
    entry["window"] = m.window;
    entry["us_per_step"] = m.seconds_per_step * 1e6;
    entry["limit_us"] = m.limit * 1e6;
    entry["trace_bytes"] = m.trace_bytes;
    entry["grown_bytes"] = m.grown_bytes;
  }

  // The same row for growing lengths or sizes.
  void sweep(const char* key, Row row, const std::vector<std::int64_t>& values, std::int64_t Row::*field) {
    row.window = o_.window_steps();
    for (const std::int64_t value : values) {
      row.*field = value;
      const Measured m = measure(row, *limits_.at(row.threads), o_.quick ? 0.02 : 0.2);
      say(fmt::format("{:<4}{:<11}{:>8}{:>7}{:>12.1f}{:>9.2f}{:>12.2f}{:>10.1f}\n", row.work, name(row.rule),
                      value, m.window, m.seconds_per_step * 1e6, m.seconds_per_step / m.limit,
                      static_cast<double>(m.trace_bytes) * 1e-6, static_cast<double>(m.grown_bytes) * 1e-6));
      OrderedJson entry{{"work", row.work},
                        {"rule", name(row.rule)},
                        {"batch", row.batch},
                        {"threads", row.threads},
                        {key, value}};
      add_numbers(entry, m);
      keep(key, entry);
    }
  }
  static std::string sweep_head(const char* what) {
    return fmt::format("{:<4}{:<11}{:>8}{:>7}{:>12}{:>9}{:>12}{:>10}\n", "", "rule", what, "K", "us/step",
                       "ratio", "traces MB", "grown MB");
  }

  void length() {
    say("\nbatch 1, native, over the length of the sequence (online: in pieces of 960 steps at most)\n" +
        sweep_head("steps"));
    std::vector<std::int64_t> lengths{100};
    if (!o_.quick) lengths.insert(lengths.end(), {1000, 10000, 100000});
    for (const std::string& work : swept()) {
      std::vector<std::int64_t> shorter = lengths;  // what reverse mode keeps grows with the sequence
      if (shorter.back() > 10000) shorter.pop_back();
      sweep("length", {.work = work, .rule = Rule::Bptt, .threads = threads_.back()}, shorter, &Row::steps);
      for (const Rule rule : {Rule::DRtrl, Rule::PpProp})
        sweep("length", {.work = work, .rule = rule, .threads = threads_.back()}, lengths, &Row::steps);
    }
  }

  void size() {
    say("\nbatch 1, windows, native, over the number of units\n" + sweep_head("units"));
    std::vector<std::int64_t> sizes;
    for (std::int64_t n = 64; n <= (o_.quick ? 64 : 4096); n *= 2) sizes.push_back(n);
    for (const std::string& work : swept())
      for (const Rule rule : {Rule::DRtrl, Rule::PpProp})
        sweep("size", {.work = work, .rule = rule, .threads = threads_.back()}, sizes, &Row::units);
  }

  // Workloads of the parts length and size: W1, whose trace needs no memory of the past, and W3, whose does.
  std::vector<std::string> swept() const {
    std::vector<std::string> out;
    for (const char* work : {"W1", "W3"})
      if (wants(o_.only, std::string(work))) out.emplace_back(work);
    return out;
  }

  void start() {
    say(fmt::format(
        "\nfrom a model with its weights to its first gradient, of one step and of a window of {}, "
        "milliseconds.\nlearner: graph, plan, empty traces; ready: code for the window compiled, or loaded "
        "from "
        "the cache\n{:34}{:^20}{:^30}\n"
        "{:<4}{:<11}{:>5}{:>6}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
        bench::kWindow, "", "interpreter", "native: ready, ready, done", "", "rule", "batch", "model",
        "learner", "1 step", "window", "compiled", "cached", "window"));
    for (const char* work : {"W1", "W2", "W3"})
      for (const Rule rule : {Rule::DRtrl, Rule::PpProp}) {
        if (!wants(o_.only, std::string(work)) || !wants(o_.rules, std::string(name(rule)))) continue;
        one_start(work, rule, o_.batches.empty() ? 32 : o_.batches.front());
      }
  }

  void one_start(const char* work, Rule rule, std::int64_t batch) {
    const bench::StartTimes t = bench::start_times(work, rule, batch, o_.quick ? 1 : 5);
    say(fmt::format("{:<4}{:<11}{:>5}{:>6.0f}{:>8.2f}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.2f}{:>10.1f}\n", work,
                    name(rule), batch, t.model * 1e3, t.build * 1e3, t.first_step * 1e3, t.first_window * 1e3,
                    t.cold * 1e3, t.cached * 1e3, t.cached_window * 1e3));
    keep("start", {{"work", work},
                   {"rule", name(rule)},
                   {"batch", batch},
                   {"model_ms", t.model * 1e3},
                   {"build_ms", t.build * 1e3},
                   {"first_step_ms", t.first_step * 1e3},
                   {"first_window_ms", t.first_window * 1e3},
                   {"cold_ready_ms", t.cold * 1e3},
                   {"cached_ready_ms", t.cached * 1e3},
                   {"cached_window_ms", t.cached_window * 1e3}});
  }

  void sparse() {
    say(fmt::format(
        "\nW5 by the number of synapses, D_RTRL in windows, native, with updates: the most that the process "
        "grew,\nbeginning before the model was made\n{:>10}  {:<6}{:<9}{:>10}{:>12}{:>10}{:>12}{:>12}\n",
        "synapses", "rule", "update", "model MB", "learner MB", "most MB", "per synapse", "us/step"));
    const std::vector<std::int64_t> sizes =
        o_.quick ? std::vector<std::int64_t>{100'000} : std::vector<std::int64_t>{1'000'000, 15'000'000};
    for (const std::int64_t synapses : sizes)
      for (const char* optimizer : {"sgd", "adam"})
        for (const bool in_program : {true, false})
          one_sparse({synapses, optimizer, in_program, threads_.back()});
  }

  void one_sparse(const bench::SparseRow& row) {
    const bench::SparseMeasured m = bench::measure_sparse(row);
    const auto mb = [](std::size_t bytes) { return static_cast<double>(bytes) * 1e-6; };
    const double each = static_cast<double>(m.peak_bytes) / static_cast<double>(row.synapses);
    say(fmt::format("{:>10}  {:<6}{:<9}{:>10.1f}{:>12.1f}{:>10.1f}{:>12.1f}{:>12.1f}\n", row.synapses,
                    row.optimizer, row.in_program ? "train" : "update", mb(m.model_bytes),
                    mb(m.learner_bytes), mb(m.peak_bytes), each, m.seconds_per_step * 1e6));
    keep("sparse", {{"synapses", row.synapses},
                    {"optimizer", row.optimizer},
                    {"in_program", row.in_program},
                    {"threads", row.threads},
                    {"model_bytes", m.model_bytes},
                    {"learner_bytes", m.learner_bytes},
                    {"peak_bytes", m.peak_bytes},
                    {"bytes_per_synapse", each},
                    {"us_per_step", m.seconds_per_step * 1e6}});
  }

  void latency() {
    say(
        fmt::format("\none step called from outside, learner.step(x, target), W1 D_RTRL batch 1, {} steps; "
                    "microseconds\n{:<12}{:>7}{:>9}{:>9}{:>9}{:>9}\n",
                    o_.steps, "engine", "threads", "p50", "p99", "p99.9", "max"));
    for (const std::string& backend :
         {std::string("native"), std::string("interpreter"), std::string(kDevice)})
      for (const int n : threads_) {
        // The interpreter only if it is asked for: it is slower, and 10⁶ steps are many.
        if (o_.backends.empty() ? backend != "native" : !wants(o_.backends, backend)) continue;
        set_num_threads(n);
        const std::vector<double> times = bench::step_latencies("W1", Rule::DRtrl, backend, o_.steps);
        const auto at = [&](double part) {
          const auto k = static_cast<std::size_t>(std::ceil(part * static_cast<double>(times.size())));
          return times[std::max<std::size_t>(k, 1) - 1] * 1e6;
        };
        say(fmt::format("{:<12}{:>7}{:>9.2f}{:>9.2f}{:>9.2f}{:>9.1f}\n", backend, n, at(0.5), at(0.99),
                        at(0.999), times.back() * 1e6));
        keep("latency", {{"work", "W1"},
                         {"rule", "D_RTRL"},
                         {"batch", 1},
                         {"backend", backend},
                         {"threads", n},
                         {"steps", o_.steps},
                         {"p50_us", at(0.5)},
                         {"p99_us", at(0.99)},
                         {"p99.9_us", at(0.999)},
                         {"max_us", times.back() * 1e6}});
      }
  }

  // Windows as programs whose buffers stay on the device.
  void device() {
    const double rate =
        bench::device_update_rate(kDevice, o_.quick ? std::size_t{1} << 26U : std::size_t{1} << 31U);
    say(fmt::format(
        "\non the device: a pass in place at {:.0f} GB/s. microseconds per step of a window of K, launched "
        "again and again,\nwaited for at the end; passes: the rate at which the traces are read and "
        "written, of that pass\n{:<5}{:<9}{:>6}{:>5}{:>10}{:>10}{:>9}{:>11}{:>9}\n",
        rate * 1e-9, "", "rule", "batch", "K", "us/step", "to reach", "passes", "traces MB", "ready s"));
    for (const bench::DeviceRow& row : bench::device_rows()) {
      if (!wants(o_.only, row.label) || !wants(o_.batches, row.batch)) continue;
      if (o_.window != kChosen && row.window != o_.window_steps()) continue;
      const bench::DeviceMeasured m = bench::measure_on_device(row, kDevice, least_);
      const double traffic = 2.0 * static_cast<double>(m.trace_bytes) / static_cast<double>(row.window);
      say(fmt::format("{:<5}{:<9}{:>6}{:>5}{:>10.2f}{:>10.0f}{:>8.0f}%{:>11.1f}{:>9.2f}\n", row.label,
                      row.rule, row.batch, row.window, m.seconds_per_step * 1e6, row.target_us,
                      100.0 * traffic / m.seconds_per_step / rate, static_cast<double>(m.trace_bytes) * 1e-6,
                      m.compile_seconds));
      keep("device", {{"work", row.label},
                      {"rule", row.rule},
                      {"batch", row.batch},
                      {"window", row.window},
                      {"us_per_step", m.seconds_per_step * 1e6},
                      {"to_reach_us", row.target_us},
                      {"trace_bytes", m.trace_bytes},
                      {"update_bytes_per_second", rate}});
    }
  }
  static constexpr const char* kDevice = "cuda";

  const BenchArguments& o_;
  const Interrupt interrupt_;
  const double least_;
  std::vector<int> threads_;
  std::map<int, std::unique_ptr<Limits>> limits_;
  OrderedJson out_;
};

CLI::Option* list_option(CLI::App& verb, const char* name, std::vector<std::string>& to,
                         const std::string& doc, const std::vector<std::string>& known) {
  return verb.add_option(name, to, fmt::format("{}: {}", doc, fmt::join(known, ", ")))
      ->type_name("NAME,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(known));
}

}  // namespace

void add_bench(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("bench", "measure this machine, and what learning takes of it");
  auto o = std::make_shared<BenchArguments>();
  std::vector<std::string> rules, engines{"interpreter", "native", "cuda"};
  for (const Rule r : kRules) rules.emplace_back(name(r));
  list_option(*verb, "--part", o->parts, "parts of the run (default: all but latency and device)", kParts);
  std::vector<std::string> works = kWorks;
  works.insert(works.begin() + 3, "W4");  // of the part device alone
  list_option(*verb, "--only", o->only, "workloads (default: all)", works);
  list_option(*verb, "--rule", o->rules, "rules of workloads and start (default: all)", rules);
  list_option(*verb, "--form", o->forms, "forms of the part workloads (default: both)", {"step", "window"});
  list_option(*verb, "--backend", o->backends,
              "engines of workloads and latency (default: interpreter and native; latency: native)", engines);
  verb->add_option("--batch", o->batches, "batches of W1, W2, W3 (default: 1,32,128)")
      ->type_name("N,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number<std::int64_t>(1, 4096));
  verb->add_option("--threads", o->threads, "numbers of threads (default: 1 and all)")
      ->type_name("N,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number<std::int64_t>(1, 4096));
  verb->add_option("--window", o->window,
                   "steps that online rules run at once: a number, or what the learner chooses")
      ->type_name("K|chosen")
      ->check(CLI::Validator(
          [](const std::string& text) -> std::string {
            if (text == kChosen) return "";
            std::string number = text;
            return whole_number<std::int64_t>(1, 4096)(number);
          },
          ""))
      ->capture_default_str();
  verb->add_flag("--latency", o->latency, "only the part latency: the time of every single step");
  verb->add_option("--steps", o->steps, "steps of the part latency")
      ->type_name("N")
      ->check(count_from(1))
      ->capture_default_str();
  verb->add_flag("--quick", o->quick,
                 "shorter measurements, fewer sizes: to see that it works, not to quote");
  verb->add_option(
          "--json", o->json,
          "write all numbers to this file; -: to standard output, and what is for people to standard error")
      ->type_name("FILE");
  verb->footer(
      wrapped("Workloads:", 11,
              "W1 a vanilla recurrent network of 256 units; W2 a GRU of 512; W3 512 spiking neurons with "
              "exponential synapses, of which 5 to 10 % fire at each step (W3-saturated: 79 %); W5 10,000 "
              "neurons with 100 random synapses each (batch 1); W6 a "
              "convolutional spiking layer (batch 8)") +
      wrapped("Rules:", 11,
              "multi_step is D_RTRL between windows and reverse mode inside; BPTT is reverse mode over the "
              "sequence") +
      "A quoted number comes from the preset release on a machine that does nothing else.\n");
  verb->callback([o, &status] {
    require_writable("bench", {"--json", o->json});
    status.code = Bench(*o).run();
  });
}

}  // namespace etrace::cli
