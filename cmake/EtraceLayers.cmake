# src/<layer>/**.cpp -> object library etrace_<layer>; all of them -> one shared library `etrace`.
# Shared, because rows that register themselves are dropped by the linker from a plain static archive.
# A layer without a folder or without sources is skipped, so layers can be added one at a time.

# What every target of ours compiles with: no fused multiply-add unless the code asks for it, so that
# interpreter, emitted code and every compiler give the same bits. And the compiler need not collect its
# garbage before it holds 512 MB, which makes it some 5 % faster.
add_library(etrace_flags INTERFACE)
target_compile_options(etrace_flags INTERFACE -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)

# What the kernel layers compile with on top. ETRACE_CPU names the machine's CPU in the command line, so
# that neither ninja nor ccache reuses an object that was built for another CPU.
add_library(etrace_kernel_flags INTERFACE)
target_compile_options(etrace_kernel_flags INTERFACE
  ${ETRACE_KERNEL_OPTIMIZE} -fno-math-errno -fno-trapping-math)
if(ETRACE_NATIVE)
  set(cpu "${CMAKE_HOST_SYSTEM_PROCESSOR}")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo cpu LIMIT_COUNT 40 REGEX "^(vendor_id|cpu family|model|stepping|flags|Features)[ \t]*:")
    list(REMOVE_DUPLICATES cpu)
  endif()
  string(MD5 cpu "${cpu}")
  target_compile_options(etrace_kernel_flags INTERFACE -march=native)
  target_compile_definitions(etrace_kernel_flags INTERFACE ETRACE_CPU=0x${cpu})
endif()

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
    etrace_flags etrace_warnings fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
endfunction()

function(etrace_add_library)
  configure_file(cmake/version.h.in generated/include/etrace/version.h @ONLY)
  configure_file(cmake/version.cpp.in generated/version.cpp @ONLY)

  add_library(etrace SHARED "${PROJECT_BINARY_DIR}/generated/version.cpp")
  add_library(etrace::etrace ALIAS etrace)
  # By file, not by target: the installed package must not ask its users for our private dependencies.
  target_link_libraries(etrace PRIVATE $<TARGET_FILE:fmt::fmt> $<TARGET_FILE:ZLIB::ZLIB> Threads::Threads ${CMAKE_DL_LIBS})
  # The library calls its own instances of templates, not those that a program happens to hold: tests are compiled
  # without optimisation.
  target_link_options(etrace PRIVATE -Wl,-Bsymbolic-functions)
  target_compile_features(etrace PUBLIC cxx_std_20)
  set_target_properties(etrace PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

  file(GLOB_RECURSE headers CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/include/etrace/*.h" "${PROJECT_SOURCE_DIR}/include/etrace/*.def")
  target_sources(etrace PUBLIC FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/generated/include"
    FILES ${headers} "${PROJECT_BINARY_DIR}/generated/include/etrace/version.h")

  set(present "")
  foreach(layer IN LISTS ETRACE_LAYERS)
    etrace_layer_sources(${layer} sources)
    if(layer STREQUAL "cli" OR NOT sources)
      continue()
    endif()
    add_library(etrace_${layer} OBJECT ${sources})
    etrace_setup_private_target(etrace_${layer})
    # Hidden unless a header says otherwise: all of include/etrace/, and the private headers that the program or a
    # test looks into.
    set_target_properties(etrace_${layer} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    if(layer IN_LIST ETRACE_KERNEL_LAYERS)
      target_link_libraries(etrace_${layer} PRIVATE etrace_kernel_flags)
      etrace_precompile(etrace_${layer} kernels)
    else()
      etrace_precompile(etrace_${layer} layers)
    endif()
    etrace_join_sources(etrace_${layer} 12)
    if(layer IN_LIST ETRACE_SANITIZE_LAYERS)
      etrace_sanitize_target(etrace_${layer})
    endif()
    target_sources(etrace PRIVATE $<TARGET_OBJECTS:etrace_${layer}>)
    list(APPEND present ${layer})
    if(layer STREQUAL ETRACE_LAST_LAYER)
      break()
    endif()
  endforeach()
  if("emit" IN_LIST present)
    etrace_embed_headers()
  endif()
  list(JOIN present " " present)
  message(STATUS "etrace ${PROJECT_VERSION}, layers: ${present}")
endfunction()

# The kernels' headers as text inside the library: emitted programs get them pasted in.
function(etrace_embed_headers)
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/runtime/etp_*.h")
  set(text "${PROJECT_BINARY_DIR}/generated/kernel_text.cpp")
  set(script "${PROJECT_SOURCE_DIR}/tools/embed_headers.py")
  add_custom_command(OUTPUT "${text}"
    COMMAND "${Python3_EXECUTABLE}" "${script}" "${text}" ${headers}
    DEPENDS "${script}" ${headers}
    COMMENT "Embedding the kernels' headers" VERBATIM)
  target_sources(etrace PRIVATE "${text}")
  set_source_files_properties("${text}" PROPERTIES INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/src")
endfunction()

# The program: target etrace_cli, file bin/etrace.
function(etrace_add_cli)
  etrace_layer_sources(cli sources)
  if(NOT sources)
    return()
  endif()
  add_executable(etrace_cli ${sources})
  etrace_setup_private_target(etrace_cli)
  target_link_libraries(etrace_cli PRIVATE etrace::etrace CLI11::CLI11)
  target_compile_options(etrace_cli PRIVATE ${ETRACE_OUTER_OPTIMIZE})
  etrace_join_sources(etrace_cli 40)  # one unit: each would spend 8 s on the headers of CLI11
  set_target_properties(etrace_cli PROPERTIES
    OUTPUT_NAME etrace RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
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
