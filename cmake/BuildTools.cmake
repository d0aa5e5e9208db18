# Faster builds when the tools are there: ccache in front of the compiler, mold or lld as linker.
# Only for our own top-level build; a project that embeds etrace decides for itself.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

find_program(ETRACE_CCACHE ccache)
if(ETRACE_CCACHE)
  foreach(lang C CXX)
    if(NOT DEFINED CMAKE_${lang}_COMPILER_LAUNCHER)
      # ccache handles precompiled headers only if it may ignore their time stamps.
      set(CMAKE_${lang}_COMPILER_LAUNCHER
          "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${ETRACE_CCACHE}")
    endif()
  endforeach()
endif()

include(CheckLinkerFlag)
find_program(ETRACE_MOLD mold)
find_program(ETRACE_LLD ld.lld)
if(ETRACE_MOLD)
  check_linker_flag(CXX "-fuse-ld=mold" ETRACE_HAVE_MOLD)
endif()
if(ETRACE_LLD AND NOT ETRACE_HAVE_MOLD)
  check_linker_flag(CXX "-fuse-ld=lld" ETRACE_HAVE_LLD)
endif()
if(ETRACE_HAVE_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(ETRACE_HAVE_LLD)
  add_link_options(-fuse-ld=lld)
endif()
