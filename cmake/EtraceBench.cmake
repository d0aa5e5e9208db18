# bench/*.cpp -> build/<preset>/bench/<name>, Google Benchmark programs (a main of their own is fine too).
function(etrace_add_benchmarks)
  find_package(benchmark CONFIG QUIET)
  if(NOT benchmark_FOUND)
    message(FATAL_ERROR "Google Benchmark is not installed; run ./dev setup, or set ETRACE_BUILD_BENCH=OFF")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
  add_custom_target(benchmarks)
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(bench_${name} "${source}")
    target_include_directories(bench_${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}")
    target_link_libraries(bench_${name} PRIVATE etrace::etrace etrace_flags etrace_kernel_flags
      etrace_test_warnings fmt::fmt benchmark::benchmark_main benchmark::benchmark)
    set_target_properties(bench_${name} PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
    add_dependencies(benchmarks bench_${name})
  endforeach()
endfunction()
