# Two interface targets: etrace_warnings for the library, etrace_test_warnings (less strict) for tests,
# examples and benchmarks.
add_library(etrace_test_warnings INTERFACE)
target_compile_options(etrace_test_warnings INTERFACE
  -Wall -Wextra
  -Wno-missing-field-initializers  # rule rows leave most slots at their defaults on purpose
  $<$<BOOL:${ETRACE_WERROR}>:-Werror>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Flow-based warnings of GCC 12 that are wrong on correct code: std::string concatenation (GCC bug 105651),
  # inlined vector growth, std::optional and std::variant. They stay visible where they are few: at -O3 there
  # are thirty, all of them wrong.
  set(wrong array-bounds stringop-overflow stringop-overread free-nonheap-object maybe-uninitialized)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(TRANSFORM wrong PREPEND -Wno-)
  else()
    list(TRANSFORM wrong PREPEND -Wno-error=)
  endif()
  target_compile_options(etrace_test_warnings INTERFACE -Wno-restrict ${wrong})
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
