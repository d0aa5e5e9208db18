// The CUDA C++ of one window of a workload, and the order of its launches:
//   cuda_source W3 D_RTRL 32 64      (workload, rule, batch, steps)
#include <cstdio>
#include <cstdlib>

#include "bench/device_run.cpp"  // part of the command-line program, not of the library
#include "emit/cuda_unit.h"
#include "emit/emit.h"

int main(int argc, char** argv) {
  using namespace etrace;
  if (argc < 5) {
    std::fprintf(stderr, "usage: cuda_source WORK RULE BATCH STEPS\n");
    return 2;
  }
  const bool four = std::string(argv[1]) == "W4";
  const bench::DeviceRow row{argv[1],         four ? "W3" : argv[1], argv[2], std::atoll(argv[3]),
                             four ? 2048 : 0, std::atoll(argv[4]),   0};
  const Program p = bench::window_program(row);
  std::printf("%s", emit::to_string(emit::cuda_unit(emit::build(p, emit::find_target("cuda")))).c_str());
}
