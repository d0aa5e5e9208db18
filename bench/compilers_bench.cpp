// One source, several C compilers: the programs of the workloads, and products by runtime/etp_gemm.h. Best
// time of many runs in turns, the ratio to the first compiler, and whether the bits are the same.
//
//   compilers_bench [--cc gcc,clang] [FILTER …]   only rows whose name, say "W3 pp_prop b32 k32" or
//                                                 "product f32 128x256x256 NN", has every FILTER in it
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/native_rows.h"
#include "native/compile.h"
#include "native/toolchain.h"
#include "runtime/thread_pool.h"

namespace et = etrace;
namespace fs = std::filesystem;

namespace {

using Ways = std::vector<std::function<void()>>;  // one per compiler

// Best of each; in turns, so that all see the same machine.
std::vector<double> best_of(const Ways& ways) {
  std::vector<double> best(ways.size(), 1e9);
  double total = 0;
  for (int round = 0; round < 20000 && (total < 1.0 || round < 5); ++round)
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      ways[i]();
      const double t = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best[i] = std::min(best[i], t);
      total += t;
    }
  return best;
}

void print(const std::string& name, bool same, const std::vector<double>& best, double per) {
  std::string line = fmt::format("{:<30} {:<9}", name, same ? "same bits" : "DIFFERENT");
  for (const double t : best) line += fmt::format(" {:>10.2f} ({:.2f})", t * per, t / best[0]);
  std::cout << line << std::endl;
}

// Programs --------------------------------------------------------------------------------------------------
bool equal(const et::bench::Bound& a, const et::bench::Bound& b) {
  for (std::size_t i = 0; i < a.memory.size(); ++i)
    if (std::memcmp(a.memory[i].bytes(), b.memory[i].bytes(), a.memory[i].aval().bytes()) != 0) return false;
  return true;
}

void compare(const et::bench::Row& row, const std::vector<std::string>& compilers) {
  const et::bench::Workload w = et::bench::workload(row.work, row.batch);
  const et::Learner learner = learner_of(row, w);
  const et::Program p = program_of(row, w, learner);
  std::vector<std::shared_ptr<const et::Runnable>> code;
  std::vector<et::bench::Bound> bound;
  for (const std::string& cc : compilers) {
    ::setenv("CC", cc.c_str(), 1);
    code.push_back(et::native::compile_native(p));
    bound.push_back(bind(p, w, row.steps));
  }
  Ways ways;
  for (std::size_t i = 0; i < compilers.size(); ++i)
    ways.emplace_back([&, i] { code[i]->run(bound[i].arguments.data(), bound[i].results.data()); });
  for (const auto& run : ways)
    for (int i = 0; i < 3; ++i) run();  // traces and states go on
  const bool same =
      std::all_of(bound.begin(), bound.end(), [&](const et::bench::Bound& b) { return equal(bound[0], b); });
  print(row.name(), same, best_of(ways), 1e6 / static_cast<double>(row.steps));
}

// Products --------------------------------------------------------------------------------------------------
constexpr const char* kProducts = R"(#include "runtime/etp_gemm.h"
#define SHOWN __attribute__((visibility("default")))
#define PRODUCT(T, S)                                                                                         \
  SHOWN size_t scratch_##S(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K) { return etp_gemm_scratch_##S(M, N, K, 3); } \
  SHOWN void product_##S(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, const T* A, ptrdiff_t ars, ptrdiff_t acs,     \
                         const T* B, ptrdiff_t brs, ptrdiff_t bcs, T* C, void* scratch) {                     \
    etp_gemm_##S(M, N, K, A, ars, acs, B, brs, bcs, C, N, 0, scratch);                                        \
  }
PRODUCT(float, f32)
PRODUCT(double, f64)
)";

struct Product {
  std::ptrdiff_t M, N, K;
  const char* form;  // N or T: A as it is or transposed, and B
  std::string name(const char* type) const {
    return fmt::format("product {} {}x{}x{} {}", type, M, N, K, form);
  }
};
// Sizes of the workloads, the edges of tiles, single rows, and few steps of k.
constexpr Product kSizes[] = {{128, 256, 256, "NN"},  {32, 512, 300, "NN"}, {32, 384, 128, "NT"},
                              {128, 128, 1024, "TN"}, {192, 64, 32, "TN"},  {512, 512, 512, "NN"},
                              {33, 70, 45, "NN"},     {7, 9, 200, "NN"},    {4, 1000, 64, "NN"},
                              {100, 100, 3, "NN"},    {1, 256, 256, "NN"},  {1, 200, 200, "NN"},
                              {1, 37, 64, "NN"},      {1, 384, 100, "NT"}};

class Library {
 public:
  explicit Library(const std::string& cc) {
    const fs::path folder = fs::temp_directory_path(),
                   source_root = fs::path(__FILE__).parent_path() / "../src";
    const std::string stem = (folder / fmt::format("etrace-products-{}-{}", ::getpid(), count_++)).string();
    std::ofstream(stem + ".c") << kProducts;
    const et::native::Compiler compiler{{cc, "-I" + fs::absolute(source_root).string()}};
    const std::string failed = et::native::compile_shared(compiler, stem + ".c", stem + ".so");
    if (failed.empty()) handle_ = ::dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    fs::remove(stem + ".c");
    fs::remove(stem + ".so");
    if (handle_ == nullptr) throw et::IoError("bench", "no products by " + cc + ": " + failed);
  }
  template <class F>
  F* function(const std::string& name) const {
    return reinterpret_cast<F*>(::dlsym(handle_, name.c_str()));
  }

 private:
  static inline int count_ = 0;
  void* handle_ = nullptr;
};

template <class T>
void compare(const Product& p, const char* type, const std::vector<Library>& libraries) {
  using Scratch = std::size_t(std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t);
  using Run = void(std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t, const T*, std::ptrdiff_t, std::ptrdiff_t,
                   const T*, std::ptrdiff_t, std::ptrdiff_t, T*, void*);
  const et::Dtype dtype = sizeof(T) == 4 ? et::Dtype::F32 : et::Dtype::F64;
  const et::Tensor a = et::random::normal(et::random::key(1), {p.M, p.K}, dtype).tensor(),
                   b = et::random::normal(et::random::key(2), {p.K, p.N}, dtype).tensor();
  const bool ta = p.form[0] == 'T', tb = p.form[1] == 'T';
  // As many as take a tenth of a millisecond at ten operations per nanosecond: the clock is not measured.
  const int repeats = static_cast<int>(1 + 1'000'000 / (2 * p.M * p.N * p.K));
  et::Tensors results;
  Ways ways;
  for (const Library& library : libraries) {
    results.push_back(et::Tensor::full({dtype, {p.M, p.N}}, 0.0));
    T* c = reinterpret_cast<T*>(results.back().writable());
    const std::size_t bytes = library.function<Scratch>(fmt::format("scratch_{}", type))(p.M, p.N, p.K);
    const et::Tensor scratch =
        et::Tensor::full({et::Dtype::F64, {static_cast<std::int64_t>(bytes / 8 + 1)}}, 0.0);
    Run* run = library.function<Run>(fmt::format("product_{}", type));
    ways.emplace_back([=]() mutable {
      for (int i = 0; i < repeats; ++i)
        run(p.M, p.N, p.K, reinterpret_cast<const T*>(a.bytes()), ta ? 1 : p.K, ta ? p.M : 1,
            reinterpret_cast<const T*>(b.bytes()), tb ? 1 : p.N, tb ? p.K : 1, c,
            const_cast<std::byte*>(reinterpret_cast<const std::byte*>(scratch.bytes())));
    });
  }
  for (const auto& run : ways) run();
  const bool same =
      std::all_of(results.begin(), results.end(), [&](const et::Tensor& t) { return t == results[0]; });
  print(p.name(type), same, best_of(ways), 1e6 / repeats);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> compilers{"gcc", "clang"}, filters;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--cc") == 0 && i + 1 < argc) {
      compilers.clear();
      std::istringstream names(argv[++i]);
      for (std::string name; std::getline(names, name, ',');) compilers.push_back(name);
    } else {
      filters.emplace_back(argv[i]);
    }
  }
  std::cout << fmt::format("{} threads; microseconds per step or product by {}\n", et::default_pool().size(),
                           fmt::join(compilers, ", "));
  for (const et::bench::Row& row : et::bench::rows(filters)) compare(row, compilers);
  std::vector<Library> libraries;
  for (const std::string& cc : compilers) libraries.emplace_back(cc);
  for (const Product& p : kSizes) {
    if (et::bench::wanted(p.name("f32"), filters)) compare<float>(p, "f32", libraries);
    if (et::bench::wanted(p.name("f64"), filters)) compare<double>(p, "f64", libraries);
  }
}
