// What `etrace bench --part device` measures: windows of the workloads as programs on a backend with memory
// of its own, launched one after the other on buffers that stay there, and waited for at the end alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etrace/program.h"

namespace etrace::bench {

struct DeviceRow {
  std::string label, work;  // "W4", "W3"
  std::string rule;
  std::int64_t batch, units, window;
  double target_us;  // per step; 0: none
};
const std::vector<DeviceRow>& device_rows();

// The program of a window, sums of gradients carried on.
Program window_program(const DeviceRow&);

struct DeviceMeasured {
  double seconds_per_step = 0.0;  // median of several series of launches
  std::size_t trace_bytes = 0;
  double compile_seconds = 0.0;
};
DeviceMeasured measure_on_device(const DeviceRow&, const std::string& backend, double least_seconds);

// Bytes per second, read and written, of one pass in place over a buffer of so many bytes.
double device_update_rate(const std::string& backend, std::size_t bytes);

}  // namespace etrace::bench
