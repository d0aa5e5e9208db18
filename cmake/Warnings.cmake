# Two interface targets: etrace_warnings for the library, etrace_test_warnings (less strict) for tests,
# examples and benchmarks.
add_library(etrace_test_warnings INTERFACE)
target_compile_options(etrace_test_warnings INTERFACE
  -Wall -Wextra
  -Wno-missing-field-initializers  # rule rows leave most slots at their defaults on purpose
  $<$<BOOL:${ETRACE_WERROR}>:-Werror>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Flow-based warnings of GCC 12 that are wrong on correct code: std::string concatenation (GCC bug 105651),
  # inlined vector growth, std::optional and std::variant. They stay visible where they are not silenced.
  target_compile_options(etrace_test_warnings INTERFACE
    -Wno-restrict
    -Wno-error=array-bounds -Wno-error=stringop-overflow -Wno-error=stringop-overread
    -Wno-error=free-nonheap-object -Wno-error=maybe-uninitialized)
  if(ETRACE_SANITIZE)
    target_compile_options(etrace_test_warnings INTERFACE
      -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endif()

add_library(etrace_warnings INTERFACE)
target_link_libraries(etrace_warnings INTERFACE etrace_test_warnings)
target_compile_options(etrace_warnings INTERFACE
  -Wconversion -Wshadow=local
  $<$<COMPILE_LANGUAGE:CXX>:-Wmissing-declarations -Wnon-virtual-dtor -Woverloaded-virtual>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Clang has no "=local", counts signedness as conversion, and -Wmissing-declarations means something else.
  target_compile_options(etrace_warnings INTERFACE
    -Wno-unknown-warning-option -Wno-sign-conversion -Wno-implicit-int-float-conversion)
endif()
