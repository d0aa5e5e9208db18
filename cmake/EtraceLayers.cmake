# src/<layer>/**.cpp -> object library etrace_<layer>; all of them -> one shared library `etrace`. The program has
# cli and bench; of bench, the library has what is compiled like a kernel: the ceilings of the machine.
# Shared, because rows that register themselves are dropped by the linker from a plain static archive.
# A layer without a folder or without sources is skipped, so layers can be added one at a time.

# A wheel brings what it needs: fmt is compiled into it.
set(ETRACE_FMT fmt::fmt)
if(ETRACE_WHEEL)
  set(ETRACE_FMT fmt::fmt-header-only)
endif()

# What every target of ours compiles with: no fused multiply-add unless the code asks for it, so that
# interpreter, emitted code and every compiler give the same bits. And the compiler need not collect its
# garbage before it holds 512 MB, which makes it some 5 % faster.
add_library(etrace_flags INTERFACE)
target_compile_options(etrace_flags INTERFACE -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)

# What the kernel layers compile with on top (decision 0019). Either for this machine alone: then ETRACE_CPU names
# its CPU in the command line, so that neither ninja nor ccache reuses an object that was built for another. Or, on
# x86-64, for the levels v3 (AVX2, FMA) and v4 (AVX-512): the kernel layers are compiled twice, and there are two
# libraries, of which the loader takes the one that the CPU can run. Elsewhere: as the compiler does by default.
set(ETRACE_KERNEL_VARIANTS "")
set(etrace_cpu_flags "")
if(ETRACE_NATIVE)
  set(cpu "${CMAKE_HOST_SYSTEM_PROCESSOR}")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo cpu LIMIT_COUNT 40 REGEX "^(vendor_id|cpu family|model|stepping|flags|Features)[ \t]*:")
    list(REMOVE_DUPLICATES cpu)
  endif()
  string(MD5 cpu "${cpu}")
  set(etrace_cpu_flags -march=native -DETRACE_CPU=0x${cpu})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(etrace_cpu_flags -march=x86-64-v3)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set(ETRACE_KERNEL_VARIANTS v4)
  endif()
endif()
function(etrace_add_kernel_flags target)  # [FLAGS]
  add_library(${target} INTERFACE)
  target_compile_options(${target} INTERFACE
    ${ETRACE_KERNEL_OPTIMIZE} -fno-math-errno -fno-trapping-math ${ARGN})
endfunction()
etrace_add_kernel_flags(etrace_kernel_flags ${etrace_cpu_flags})
foreach(variant IN LISTS ETRACE_KERNEL_VARIANTS)
  etrace_add_kernel_flags(etrace_kernel_flags_${variant} -march=x86-64-${variant})
endforeach()

function(etrace_layer_sources layer out)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/src/${layer}/*.cpp" "${PROJECT_SOURCE_DIR}/src/${layer}/*.c")
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

# Include folders, warnings and private dependencies of a target compiled from src/.
function(etrace_setup_private_target target)
  target_include_directories(${target} PRIVATE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/generated/include" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE
    etrace_flags etrace_warnings ${ETRACE_FMT} nlohmann_json::nlohmann_json Threads::Threads)
endfunction()

# The shared library `etrace` (empty variant), or another one of that name for a CPU with more. What the installed
# package needs of it is added by etrace_add_library().
function(etrace_add_shared_library target)
  add_library(${target} SHARED "${PROJECT_BINARY_DIR}/generated/version.cpp")
  target_include_directories(${target} PRIVATE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/generated/include")
  # By file, not by target: the installed package must not ask its users for our private dependencies.
  target_link_libraries(${target} PRIVATE
    $<$<NOT:$<BOOL:${ETRACE_WHEEL}>>:$<TARGET_FILE:fmt::fmt>> $<TARGET_FILE:ZLIB::ZLIB> Threads::Threads ${CMAKE_DL_LIBS})
  # The library calls its own instances of templates, not those that a program happens to hold: tests are compiled
  # without optimisation.
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic-functions)
  # A wheel has no links: a file under each of its names would be in it several times.
  set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(ETRACE_WHEEL)
    set(soversion ${PROJECT_VERSION})
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME etrace VERSION ${PROJECT_VERSION} SOVERSION ${soversion})
endfunction()

# Objects of a layer, in target etrace_<layer><suffix>.
function(etrace_add_layer layer suffix kernel_flags sources)
  string(REPLACE "/" "_" name "${layer}")
  set(target etrace_${name}${suffix})
  add_library(${target} OBJECT ${sources})
  etrace_setup_private_target(${target})
  # Hidden unless a header says otherwise: all of include/etrace/, and the private headers that the program or a
  # test looks into.
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(kernel_flags)
    target_link_libraries(${target} PRIVATE ${kernel_flags})
    etrace_precompile(${target} kernels${suffix})
  else()
    etrace_precompile(${target} layers)
  endif()
  etrace_join_sources(${target} 12)
  if(layer IN_LIST ETRACE_SANITIZE_LAYERS)
    etrace_sanitize_target(${target})
  endif()
endfunction()

# Names of layers that are none would be passed over in silence.
function(etrace_require_layers)
  foreach(layer IN LISTS ETRACE_SANITIZE_LAYERS ETRACE_LAST_LAYER)
    if(NOT layer IN_LIST ETRACE_LAYERS)
      message(FATAL_ERROR "there is no layer ${layer} (ETRACE_SANITIZE_LAYERS, ETRACE_LAST_LAYER); there are: ${ETRACE_LAYERS}")
    endif()
  endforeach()
endfunction()

function(etrace_add_library)
  etrace_require_layers()
  configure_file(cmake/version.h.in generated/include/etrace/version.h @ONLY)
  configure_file(cmake/version.cpp.in generated/version.cpp @ONLY)

  etrace_add_shared_library(etrace)
  add_library(etrace::etrace ALIAS etrace)
  target_compile_features(etrace PUBLIC cxx_std_20)
  set_target_properties(etrace PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
  # In a folder that the dynamic loader looks into first on a CPU of that level.
  foreach(variant IN LISTS ETRACE_KERNEL_VARIANTS)
    etrace_add_shared_library(etrace_${variant})
    set_target_properties(etrace_${variant} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/glibc-hwcaps/x86-64-${variant}")
    add_dependencies(etrace etrace_${variant})
  endforeach()

  file(GLOB_RECURSE headers CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/include/etrace/*.h" "${PROJECT_SOURCE_DIR}/include/etrace/*.def")
  target_sources(etrace PUBLIC FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/generated/include"
    FILES ${headers} "${PROJECT_BINARY_DIR}/generated/include/etrace/version.h")

  set(present "")
  foreach(layer IN LISTS ETRACE_LAYERS)
    etrace_layer_sources(${layer} sources)
    if(layer STREQUAL "bench")
      list(FILTER sources INCLUDE REGEX "/ceilings\\.cpp$")
    endif()
    if(NOT ETRACE_CPU_CHECK)
      list(FILTER sources EXCLUDE REGEX "/base/cpu_check\\.cpp$")
    endif()
    if(layer STREQUAL "cli" OR NOT sources)
      continue()
    endif()
    set(kernel_flags "")
    if(layer IN_LIST ETRACE_KERNEL_LAYERS)
      set(kernel_flags etrace_kernel_flags)
    endif()
    etrace_add_layer(${layer} "" "${kernel_flags}" "${sources}")
    string(REPLACE "/" "_" name "${layer}")
    target_sources(etrace PRIVATE $<TARGET_OBJECTS:etrace_${name}>)
    foreach(variant IN LISTS ETRACE_KERNEL_VARIANTS)
      if(kernel_flags)
        etrace_add_layer(${layer} _${variant} etrace_kernel_flags_${variant} "${sources}")
        target_sources(etrace_${variant} PRIVATE $<TARGET_OBJECTS:etrace_${name}_${variant}>)
      else()
        target_sources(etrace_${variant} PRIVATE $<TARGET_OBJECTS:etrace_${name}>)
      endif()
    endforeach()
    list(APPEND present ${layer})
    if(layer STREQUAL ETRACE_LAST_LAYER)
      break()
    endif()
  endforeach()
  if("emit" IN_LIST present)
    etrace_embed_headers()
  endif()
  if("data" IN_LIST present)
    etrace_embed_data()
  endif()
  list(JOIN present " " present)
  message(STATUS "etrace ${PROJECT_VERSION}, layers: ${present}")
endfunction()

# The kernels' headers as text inside the library: emitted programs get them pasted in.
function(etrace_embed_headers)
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/runtime/etp_*.h" "${PROJECT_SOURCE_DIR}/src/kernels/etp_*.h"
    "${PROJECT_SOURCE_DIR}/src/emit/device/etp_*.h")
  set(text "${PROJECT_BINARY_DIR}/generated/kernel_text.cpp")
  set(script "${PROJECT_SOURCE_DIR}/tools/embed_headers.py")
  add_custom_command(OUTPUT "${text}"
    COMMAND "${Python3_EXECUTABLE}" "${script}" "${text}" ${headers}
    DEPENDS "${script}" ${headers}
    COMMENT "Embedding the kernels' headers" VERBATIM)
  add_library(etrace_kernel_text OBJECT "${text}")  # one rule makes it, and every library has it
  set_target_properties(etrace_kernel_text PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(etrace_kernel_text PRIVATE etrace_flags)
  target_sources(etrace PRIVATE $<TARGET_OBJECTS:etrace_kernel_text>)
  foreach(variant IN LISTS ETRACE_KERNEL_VARIANTS)
    target_sources(etrace_${variant} PRIVATE $<TARGET_OBJECTS:etrace_kernel_text>)
  endforeach()
  set_source_files_properties("${text}" PROPERTIES INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/src")
endfunction()

# Texts inside the program: what `etrace --licences` shows.
function(etrace_embed_licences target)
  set(script "${PROJECT_SOURCE_DIR}/tools/embed_file.py")
  foreach(pair NOTICE:kNotice LICENSE:kLicence)
    string(REPLACE ":" ";" pair "${pair}")
    list(GET pair 0 file)
    list(GET pair 1 name)
    set(text "${PROJECT_BINARY_DIR}/generated/${name}.cpp")
    add_custom_command(OUTPUT "${text}"
      COMMAND "${Python3_EXECUTABLE}" "${script}" "${text}" "${PROJECT_SOURCE_DIR}/${file}" etrace::cli ${name}
      DEPENDS "${script}" "${PROJECT_SOURCE_DIR}/${file}"
      COMMENT "Embedding ${file}" VERBATIM)
    target_sources(${target} PRIVATE "${text}")
    set_source_files_properties("${text}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()

# Small data sets inside the library, so that they are there wherever it is.
function(etrace_embed_data)
  set(text "${PROJECT_BINARY_DIR}/generated/digits_data.cpp")
  set(script "${PROJECT_SOURCE_DIR}/tools/embed_file.py")
  set(file "${PROJECT_SOURCE_DIR}/data/digits.csv.gz")
  add_custom_command(OUTPUT "${text}"
    COMMAND "${Python3_EXECUTABLE}" "${script}" "${text}" "${file}" etrace::data kDigits
    DEPENDS "${script}" "${file}"
    COMMENT "Embedding data" VERBATIM)
  add_library(etrace_embedded_data OBJECT "${text}")
  set_target_properties(etrace_embedded_data PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(etrace_embedded_data PRIVATE etrace_flags)
  target_sources(etrace PRIVATE $<TARGET_OBJECTS:etrace_embedded_data>)
  foreach(variant IN LISTS ETRACE_KERNEL_VARIANTS)
    target_sources(etrace_${variant} PRIVATE $<TARGET_OBJECTS:etrace_embedded_data>)
  endforeach()
endfunction()

# The program: target etrace_cli, file bin/etrace.
function(etrace_add_cli)
  etrace_layer_sources(cli sources)
  if(NOT sources)
    return()
  endif()
  etrace_layer_sources(bench measures)
  list(FILTER measures EXCLUDE REGEX "/ceilings\\.cpp$")
  add_executable(etrace_cli ${sources} ${measures})
  etrace_setup_private_target(etrace_cli)
  target_link_libraries(etrace_cli PRIVATE etrace::etrace CLI11::CLI11)
  target_compile_options(etrace_cli PRIVATE ${ETRACE_OUTER_OPTIMIZE})
  etrace_embed_licences(etrace_cli)
  etrace_join_sources(etrace_cli 40)  # one unit: each would spend 8 s on the headers of CLI11
  set_target_properties(etrace_cli PROPERTIES
    OUTPUT_NAME etrace RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
    INSTALL_RPATH "$ORIGIN/../$<IF:$<BOOL:${ETRACE_WHEEL}>,lib,${CMAKE_INSTALL_LIBDIR}>")
endfunction()

# Every full build checks who includes whom, and fails on a violation.
function(etrace_add_layer_check)
  list(JOIN ETRACE_LAYERS "," layers)
  add_custom_target(check_layers ALL
    COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/check_layers.py" --quiet
            --root "${PROJECT_SOURCE_DIR}" --expect-layers "${layers}"
    COMMENT "Checking the includes between layers"
    VERBATIM)
endfunction()
