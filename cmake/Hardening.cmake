# What a release build is given beyond speed. Only for our own top-level build; a project that embeds etrace decides for
# itself.
#
# Guards (ETRACE_HARDEN): stack protector, checked calls of the C library, and a table of addresses that is filled at the
# start and then read-only. Their cost stands in docs/decisions/0050-what-ci-runs.md.
# Same bits: no path of the machine that builds gets into what is built, so that two builds of one commit are equal
# (tests/tools/same_bits_test.py).
option(ETRACE_HARDEN "Release builds: stack protector, FORTIFY, RELRO and BIND_NOW" ON)
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

set(release "$<CONFIG:Release>")
# The last map that fits is taken: the folder of the build may lie inside of the sources.
add_compile_options(
  "$<${release}:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>"
  "$<${release}:-ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/>")
if(ETRACE_HARDEN)
  add_compile_options("$<${release}:-fstack-protector-strong>")
  if(NOT CMAKE_CXX_FLAGS_RELEASE MATCHES "-O0")  # FORTIFY needs the optimiser
    add_compile_options("$<${release}:-U_FORTIFY_SOURCE>" "$<${release}:-D_FORTIFY_SOURCE=2>")
  endif()
  add_link_options("$<${release}:LINKER:-z,relro,-z,now>")
endif()
