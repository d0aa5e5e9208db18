// A CUDA device played on a CPU, as far as the library calls one: the driver, the runtime compiler and the
// library of products under their own names, in one file for ETRACE_CUDA_LIBRARY. Device memory is that of
// malloc, so that the address sanitizer sees what kernels read and write; launches run at once, or go into a
// graph.
//
// PLAYED_BACKWARDS=1 runs blocks and threads in the opposite order: results must not depend on it.
// PLAYED_MEMORY=BYTES is what the device has.
#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define PLAYED_SANITIZE " -fsanitize=address"
#else
#define PLAYED_SANITIZE ""
#endif

namespace {

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text == '1';
}

// Blocks ----------------------------------------------------------------------------------------------------
// A fibre takes one thread of a block after the other. One that waits at a barrier keeps its fibre; another
// fibre goes on with the next thread. When all threads wait, or are done, they go on in order.
class Block {
 public:
  using Thread = void (*)(const void* pointers, unsigned number);

  static Block& get() {
    static Block block;
    return block;
  }
  void run(unsigned threads, Thread thread, const void* pointers) {
    backwards_ = is_set("PLAYED_BACKWARDS");
    thread_ = thread, pointers_ = pointers, threads_ = threads, next_ = 0, done_ = 0, waiting_.clear();
    while (next_ < threads_) enter(idle());
    while (!waiting_.empty()) {
      if (done_ > 0) {
        std::fprintf(stderr, "played: %u threads have left a block of which %zu wait at a barrier\n", done_,
                     waiting_.size());
        std::abort();
      }
      std::vector<Fibre*> all;
      all.swap(waiting_);
      for (Fibre* f : all) enter(f);
    }
  }
  void barrier() {
    Fibre* const own = current_;
    waiting_.push_back(own);
    leave(own);
  }

 private:
  static constexpr std::size_t kStack = 256 * 1024;
  struct Fibre {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[kStack]};
    bool idle = true;
    void* fake_stack = nullptr;
  };

  Fibre* idle() {
    for (auto& f : fibres_)
      if (f->idle) return f.get();
    fibres_.push_back(std::make_unique<Fibre>());
    Fibre* const f = fibres_.back().get();
    ::getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack.get();
    f->context.uc_stack.ss_size = kStack;
    f->context.uc_link = nullptr;
    ::makecontext(&f->context, reinterpret_cast<void (*)()>(&Block::work), 0);
    return f;
  }
  void enter(Fibre* f) {
    f->idle = false;
    current_ = f;
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, f->stack.get(), kStack);
#endif
    ::swapcontext(&main_, &f->context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }
  void leave(Fibre* own) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&own->fake_stack, main_stack_, main_size_);
#endif
    ::swapcontext(&own->context, &main_);
    arrived(own);
  }
  void arrived([[maybe_unused]] Fibre* own) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(own->fake_stack, &main_stack_, &main_size_);
#endif
  }
  static void work() {
    Block& b = get();
    Fibre* const own = b.current_;
    b.arrived(own);
    for (;;) {
      while (b.next_ < b.threads_) {
        const unsigned number = b.next_++;
        b.thread_(b.pointers_, b.backwards_ ? b.threads_ - 1 - number : number);
        ++b.done_;
      }
      own->idle = true;
      b.leave(own);
    }
  }

  Thread thread_ = nullptr;
  const void* pointers_ = nullptr;
  unsigned threads_ = 0, next_ = 0, done_ = 0;
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<Fibre*> waiting_;
  Fibre* current_ = nullptr;
  bool backwards_ = false;
  ucontext_t main_{};
  [[maybe_unused]] const void* main_stack_ = nullptr;
  [[maybe_unused]] std::size_t main_size_ = 0;
};

struct Host {
  void (*block)(unsigned, Block::Thread, const void*);
  void (*barrier)();
  bool backwards;
};

// The device ------------------------------------------------------------------------------------------------
struct Graph {
  std::vector<std::function<void()>> nodes;
};
struct Device {
  bool capturing = false;
  Graph graph;
  std::map<std::uint64_t, std::size_t> allocations;
  std::size_t used = 0;
  std::size_t total() const {
    const char* text = std::getenv("PLAYED_MEMORY");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : std::size_t{1} << 32U;
  }
};
Device& device() {
  static Device d;
  return d;
}

// For tests: launches of graphs, and everything else that the device was asked to do or to wait for.
struct Calls {
  std::uint64_t graphs = 0, others = 0;
};
Calls& calls() {
  static Calls c;
  return c;
}

int do_or_capture(std::function<void()> f) {
  if (device().capturing) {
    device().graph.nodes.push_back(std::move(f));
    return 0;
  }
  ++calls().others;
  f();
  return 0;
}

struct Function {
  void (*run)(unsigned blocks, unsigned threads, const void* pointers, const Host*);
  int pointers;
};
struct Module {
  void* handle;
  std::vector<std::unique_ptr<Function>> functions;
};
struct SourceProgram {
  std::string source, log, image;
};

constexpr char kMagic[] = "PLAYED01";
constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInCapture = 900;

std::string temporary_file(const char* ending) {
  static int number = 0;
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder != nullptr ? folder : "/tmp") + "/played-" + std::to_string(::getpid()) + "-" +
         std::to_string(number++) + ending;
}
std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class T>
void multiply(bool ta, bool tb, int m, int n, int k, const T* a, int lda, const T* b, int ldb, T beta, T* c,
              int ldc) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        const double x =
            ta ? a[static_cast<std::ptrdiff_t>(i) * lda + l] : a[static_cast<std::ptrdiff_t>(l) * lda + i];
        const double y =
            tb ? b[static_cast<std::ptrdiff_t>(l) * ldb + j] : b[static_cast<std::ptrdiff_t>(j) * ldb + l];
        sum += x * y;
      }
      T& to = c[static_cast<std::ptrdiff_t>(j) * ldc + i];
      to = static_cast<T>(sum + (beta == 0 ? 0.0 : static_cast<double>(beta) * to));
    }
}

}  // namespace

extern "C" {
#pragma GCC diagnostic ignored "-Wmissing-declarations"

void played_calls(std::uint64_t* graphs, std::uint64_t* others) {
  *graphs = calls().graphs;
  *others = calls().others;
}

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  *text = error == kOutOfMemory ? "out of memory"
          : error == kInCapture ? "not permitted in a capture"
                                : "invalid";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = is_set("PLAYED_NO_DEVICE") ? 0 : 1;
  return 0;
}
int cuDeviceGet(int* d, int) {
  *d = 0;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "a CPU that plays a grid");
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 1;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &device();
  return 0;
}
int cuCtxSetCurrent(void*) { return 0; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *total = device().total();
  *free = *total > device().used ? *total - device().used : 0;
  return 0;
}
int cuMemAlloc_v2(std::uint64_t* at, std::size_t bytes) {
  if (bytes == 0) return kInvalidValue;
  if (device().capturing) return kInCapture;
  if (device().used + bytes > device().total()) return kOutOfMemory;
  void* p = nullptr;
  if (::posix_memalign(&p, 256, bytes) != 0) return kOutOfMemory;
  std::memset(p, 0xa5, bytes);
  *at = reinterpret_cast<std::uint64_t>(p);
  device().allocations[*at] = bytes;
  device().used += bytes;
  return 0;
}
int cuMemFree_v2(std::uint64_t at) {
  const auto found = device().allocations.find(at);
  if (found == device().allocations.end()) return kInvalidValue;
  device().used -= found->second;
  device().allocations.erase(found);
  std::free(reinterpret_cast<void*>(at));
  return 0;
}
int cuMemHostAlloc(void** at, std::size_t bytes, unsigned) {
  *at = std::malloc(bytes);
  return 0;
}
int cuMemFreeHost(void* at) {
  std::free(at);
  return 0;
}
int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void*) {
  return do_or_capture([=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void*) {
  return do_or_capture([=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
}
int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void*) {
  return do_or_capture([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = &device();
  return 0;
}
int cuStreamSynchronize(void*) {
  ++calls().others;
  return device().capturing ? kInCapture : 0;
}
int cuEventCreate(void** event, unsigned) {
  *event = &device();
  return 0;
}
int cuStreamWaitEvent(void*, void*, unsigned) { return 0; }
int cuEventRecord(void*, void*) { return 0; }
int cuEventSynchronize(void*) { return 0; }

int cuModuleLoadData(Module** module, const void* image) {
  const char* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, kMagic, 8) != 0) return kInvalidValue;
  std::uint64_t size = 0;
  std::memcpy(&size, bytes + 8, sizeof size);
  const std::string path = temporary_file(".so");
  std::ofstream(path, std::ios::binary).write(bytes + 16, static_cast<std::streamsize>(size));
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) std::fprintf(stderr, "played: %s\n", ::dlerror());
  ::unlink(path.c_str());
  if (handle == nullptr) return kInvalidValue;
  *module = new Module{handle, {}};
  return 0;
}
int cuModuleUnload(Module* module) {
  ::dlclose(module->handle);
  delete module;
  return 0;
}
int cuModuleGetFunction(Function** function, Module* module, const char* name) {
  Function f{};
  void* const run = ::dlsym(module->handle, name);
  void* const pointers = ::dlsym(module->handle, (std::string(name) + "_pointers").c_str());
  if (run == nullptr || pointers == nullptr) return kInvalidValue;
  f.run = reinterpret_cast<decltype(f.run)>(run);
  f.pointers = *static_cast<const int*>(pointers);
  module->functions.push_back(std::make_unique<Function>(f));
  *function = module->functions.back().get();
  return 0;
}
int cuLaunchKernel(Function* f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned, void*, void** parameters, void**) {
  if (grid_x == 0 || grid_y * grid_z != 1 || block_x == 0 || block_x > 1024 || block_y * block_z != 1)
    return kInvalidValue;
  const auto* from = static_cast<const std::uint64_t*>(parameters[0]);
  const std::vector<std::uint64_t> pointers(from, from + f->pointers);
  return do_or_capture([=] {
    const Host host{[](unsigned n, Block::Thread t, const void* p) { Block::get().run(n, t, p); },
                    [] { Block::get().barrier(); }, is_set("PLAYED_BACKWARDS")};
    f->run(grid_x, block_x, pointers.data(), &host);
  });
}

int cuStreamBeginCapture_v2(void*, int) {
  if (device().capturing) return kInvalidValue;
  device().capturing = true;
  device().graph.nodes.clear();
  return 0;
}
int cuStreamEndCapture(void*, Graph** graph) {
  if (!device().capturing) return kInvalidValue;
  device().capturing = false;
  *graph = new Graph(std::move(device().graph));
  device().graph = {};
  return 0;
}
int cuGraphInstantiateWithFlags(Graph** code, Graph* graph, unsigned long long) {
  *code = new Graph(*graph);
  return 0;
}
int cuGraphLaunch(Graph* code, void*) {
  ++calls().graphs;
  for (const auto& node : code->nodes) node();
  return 0;
}
int cuGraphDestroy(Graph* graph) {
  delete graph;
  return 0;
}
int cuGraphExecDestroy(Graph* graph) {
  delete graph;
  return 0;
}

// The compiler: that of C++.
int nvrtcVersion(int* major, int* minor) {
  *major = 0, *minor = 3;
  return 0;
}
int nvrtcCreateProgram(SourceProgram** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  *program = new SourceProgram{source, {}, {}};
  return 0;
}
int nvrtcDestroyProgram(SourceProgram** program) {
  delete *program;
  return 0;
}
int nvrtcCompileProgram(SourceProgram* program, int, const char* const*) {
  const std::string base = temporary_file(""), source = base + ".cpp", object = base + ".so",
                    log = base + ".log";
  std::ofstream(source) << program->source;
  const std::string command =
      "c++ -std=c++17 -O0 -w -ffp-contract=off -fno-gnu-unique -fPIC -shared" PLAYED_SANITIZE
      " -include '" PLAYED_GRID "' '" +
      source + "' -o '" + object + "' > '" + log + "' 2>&1";
  const int status = std::system(command.c_str());
  program->log = read_all(log);
  const std::string bytes = read_all(object);
  for (const std::string& path : {source, object, log}) ::unlink(path.c_str());
  if (status != 0) return 6;
  const std::uint64_t size = bytes.size();
  program->image.assign(kMagic, 8);
  program->image.append(reinterpret_cast<const char*>(&size), sizeof size);
  program->image += bytes;
  return 0;
}
int nvrtcGetProgramLogSize(SourceProgram* program, std::size_t* bytes) {
  *bytes = program->log.size();
  return 0;
}
int nvrtcGetProgramLog(SourceProgram* program, char* to) {
  std::memcpy(to, program->log.data(), program->log.size());
  return 0;
}
int nvrtcGetCUBINSize(SourceProgram* program, std::size_t* bytes) {
  *bytes = program->image.size();
  return 0;
}
int nvrtcGetCUBIN(SourceProgram* program, char* to) {
  std::memcpy(to, program->image.data(), program->image.size());
  return 0;
}

// Products, column by column as the library has them.
int cublasCreate_v2(void** handle) {
  *handle = &device();
  return 0;
}
int cublasGetVersion_v2(void*, int* version) {
  *version = 1;
  return 0;
}
int cublasSetStream_v2(void*, void*) { return 0; }
int cublasSetWorkspace_v2(void*, void*, std::size_t) { return 0; }
int cublasGemmStridedBatchedEx(void*, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                               int a_type, int lda, long long a_stride, const void* b, int, int ldb,
                               long long b_stride, const void* beta, void* c, int, int ldc,
                               long long c_stride, int count, int, int) {
  if (m <= 0 || n <= 0 || k < 0 || lda < (ta != 0 ? k : m) || ldb < (tb != 0 ? n : k) || ldc < m) return 7;
  const bool wide = a_type == 1;
  const double start = wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  const double one = wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  if (one != 1) return 7;
  return do_or_capture([=] {
    for (long long i = 0; i < count; ++i)
      if (wide)
        multiply(ta != 0, tb != 0, m, n, k, static_cast<const double*>(a) + i * a_stride, lda,
                 static_cast<const double*>(b) + i * b_stride, ldb, start,
                 static_cast<double*>(c) + i * c_stride, ldc);
      else
        multiply(ta != 0, tb != 0, m, n, k, static_cast<const float*>(a) + i * a_stride, lda,
                 static_cast<const float*>(b) + i * b_stride, ldb, static_cast<float>(start),
                 static_cast<float*>(c) + i * c_stride, ldc);
  });
}
}
