# Precompiled headers: those that nearly every file of a family includes, compiled once per set of flags. They
# only save time: every file still includes what it uses, and is compiled without them in the presets fuzz and
# tidy (ETRACE_PCH=OFF).
include_guard()
option(ETRACE_PCH "Precompile common headers" ${PROJECT_IS_TOP_LEVEL})

set(ETRACE_PCH_STANDARD <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory> <optional>
    <span> <string> <string_view> <unordered_map> <unordered_set> <utility> <variant> <vector> <fmt/format.h>)

# Targets of one family have the same flags and share one set, made by the first of them.
function(etrace_precompile target family)
  if(NOT ETRACE_PCH)
    return()
  endif()
  get_property(owner GLOBAL PROPERTY etrace_pch_${family})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${ETRACE_PCH_STANDARD} ${ARGN})
    set_property(GLOBAL PROPERTY etrace_pch_${family} ${target})
  endif()
endfunction()
