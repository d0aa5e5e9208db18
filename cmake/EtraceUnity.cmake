# Joined sources: a few files of a target are compiled as one, because reading headers and instantiating the
# same templates is most of the work (a full build takes half the time). It only saves time: every file
# includes what it uses and is compiled by itself in the presets fuzz (lower layers) and tidy. Files joined
# this way share their unnamed namespace, so a name in it is used once per target. Apart stay the
# eligibility-trace operators, which all call their rules abstract, lower, samples, and the files of kernels for
# many types, which take long by themselves.
include_guard()
option(ETRACE_UNITY "Compile several sources of a target at once" ${PROJECT_IS_TOP_LEVEL})

set(ETRACE_UNITY_APART
  "/src/etp/(einsum|element_wise|embedding|grouped_matmul|lora_matmul|matmul|sparse_matmul)\\.cpp$"
  "/src/io/npz\\.cpp$"
  "/src/ops/(binary|unary|compare|convert|select|cumulative|reduce|conv_kernel|trace_window|trace_window_kernel)\\.cpp$")

function(etrace_join_sources target count)
  if(NOT ETRACE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
  # A type of an unnamed namespace inside one that has a name: of no harm, since each file is still one unit.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    foreach(pattern IN LISTS ETRACE_UNITY_APART)
      if(source MATCHES "${pattern}")
        set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endforeach()
endfunction()
