# Joined sources: a few files of a target are compiled as one, because reading headers and instantiating the
# same templates is most of the work (a full build takes half the time). It only saves time: every file
# includes what it uses and is compiled by itself in the presets fuzz (lower layers) and tidy. Files joined
# this way share their unnamed namespace, so a name in it is used once per target.
#
# Operators and learning rules call their parts alike (types, lower, anchors, samples …), so that a copy of one
# is the start of the next: a file in their folders is compiled by itself unless it stands below. Apart stay also
# the files of kernels for many types, which take long by themselves.
include_guard()
option(ETRACE_UNITY "Compile several sources of a target at once" ${PROJECT_IS_TOP_LEVEL})

set(ETRACE_UNITY_APART "/src/(kernels|ops|etp|learn/rules)/" "/src/io/npz\\.cpp$")
string(CONCAT ETRACE_UNITY_JOINED
  "/src/(kernels/(context|kernels|trace_forms|trace_geometry)|etp/(common|conv|register|sparse_pattern|validate)"
  "|learn/rules/(config|configured|configured_rule|d_rtrl|dni|eprop|filtered_sides|ostl_feedforward|ostl_recurrent|pp_prop"
  "|random_projection|readout_filter|rule_memory|rule_rows|signal_rules|snap|synthesizer|three_factor|uoro)"
  "|ops/(argminmax|bitwise|broadcast_in_dim|concatenate|conv_general_dilated|dot_general|dynamic_slice|einsum_plain"
  "|elementwise|elementwise_common|gather|heaviside|index_common|iota|numpy|pad|random"
  "|reduce_functions|reshape|scatter|slice|sort|structure_common|transpose_op|unary_special))\\.cpp$")

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
      if(source MATCHES "${pattern}" AND NOT source MATCHES "${ETRACE_UNITY_JOINED}")
        set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endforeach()
endfunction()
