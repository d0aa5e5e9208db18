# Tests. Every function finds its files by glob, so a new test, example or reference case is only a file:
#   tests/<folder>/**_test.cpp       one gtest program per folder, label <folder>
#   tests/<folder>/**_slow_test.cpp  a second program, labels <folder> and slow
#   tests/support/*.{h,cpp}          helpers, "support/x.h" from any test
#   tests/programs/*.cpp             one program each, with the helpers; no test by itself
#   tests/tools/*_test.py            tests of tools/, label tools; *_page_test.py: also label web; status 77: skipped
#   tests/reference/*.json           cases for `etrace check`, label reference; so tests/reference28
#   examples/*.cpp                   one program each, label example
#   examples/tutorials/*.cpp         one program each; the pages in docs/tutorials run them and compare, label doc
include_guard()
include(GoogleTest)

# What tests, examples and benchmarks share. Tests may look into src/; examples may not.
function(etrace_setup_test_target target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${target} PRIVATE
    etrace::etrace etrace_flags etrace_test_warnings nlohmann_json::nlohmann_json fmt::fmt Threads::Threads)
  target_compile_definitions(${target} PRIVATE
    ETRACE_REFERENCE_DIR="${PROJECT_SOURCE_DIR}/tests/reference"
    ETRACE_TEST_DIR="${PROJECT_SOURCE_DIR}/tests"
    $<$<TARGET_EXISTS:etrace_cli>:ETRACE_CLI="$<TARGET_FILE:etrace_cli>">)
endfunction()

function(etrace_add_test_program name labels sources)
  add_executable(${name} ${sources} $<TARGET_OBJECTS:etrace_test_rows>)
  etrace_setup_test_target(${name})
  target_link_libraries(${name} PRIVATE GTest::gtest_main GTest::gmock rapidcheck rapidcheck_gtest)
  etrace_join_sources(${name} 12)
  # Tests of kernels look at millions of numbers; the others are quicker to compile than to optimise.
  if(NOT labels MATCHES "^runtime")
    target_compile_options(${name} PRIVATE ${ETRACE_OUTER_OPTIMIZE})
    etrace_precompile(${name} tests <gtest/gtest.h> <gmock/gmock.h>)
  endif()
  if(TARGET etrace_test_support)
    target_link_libraries(${name} PRIVATE etrace_test_support)
  endif()
  if(TARGET etrace_cli)
    add_dependencies(${name} etrace_cli)
  endif()
  if(labels MATCHES "^cuda")
    add_dependencies(${name} etrace_played_cuda)
    target_compile_definitions(${name} PRIVATE ETRACE_PLAYED_CUDA="$<TARGET_FILE:etrace_played_cuda>")
    # The runtime compiler of CUDA, as `./dev setup` brings it from PyPI, for where the system has none.
    file(GLOB nvrtc "${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9]")
    list(APPEND nvrtc "libnvrtc.so")
    list(GET nvrtc 0 nvrtc)
    target_compile_definitions(${name} PRIVATE ETRACE_VENV_NVRTC="${nvrtc}")
  endif()
  if(labels MATCHES "^cli")
    add_dependencies(${name} etrace_disk)
    target_compile_definitions(${name} PRIVATE ETRACE_DISK="$<TARGET_FILE:etrace_disk>")
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  list(GET labels 0 folder)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${folder}/"
    DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${folder}" TIMEOUT 300)
  # gtest_discover_tests takes one label; a list of them is set by a script that CTest reads after it.
  set(script "${PROJECT_BINARY_DIR}/tests/${name}_labels.cmake")
  file(CONFIGURE OUTPUT "${script}" @ONLY CONTENT [[
if(@name@_TESTS)
  set_tests_properties(${@name@_TESTS} PROPERTIES LABELS "@labels@")
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${script}")
endfunction()

function(etrace_add_tests)
  foreach(dependency GTest rapidcheck)
    find_package(${dependency} CONFIG QUIET)
    if(NOT ${dependency}_FOUND)
      message(FATAL_ERROR "${dependency} is not installed; run ./dev setup, or set ETRACE_BUILD_TESTS=OFF")
    endif()
  endforeach()

  file(GLOB_RECURSE support CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.cpp")
  if(support)
    add_library(etrace_test_support STATIC ${support})
    etrace_setup_test_target(etrace_test_support)
    target_link_libraries(etrace_test_support PRIVATE GTest::gtest GTest::gmock rapidcheck)
    target_compile_options(etrace_test_support PRIVATE ${ETRACE_OUTER_OPTIMIZE})
    etrace_join_sources(etrace_test_support 6)
  endif()

  # A CUDA device played on a CPU, for ETRACE_CUDA_LIBRARY.
  add_library(etrace_played_cuda MODULE "${PROJECT_SOURCE_DIR}/tests/cuda/played/played.cpp")
  target_compile_definitions(etrace_played_cuda PRIVATE
    PLAYED_GRID="${PROJECT_SOURCE_DIR}/tests/cuda/played/grid.h")
  target_link_libraries(etrace_played_cuda PRIVATE etrace_flags ${CMAKE_DL_LIBS})
  target_compile_options(etrace_played_cuda PRIVATE -O2)
  set_target_properties(etrace_played_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")

  # Loaded before the program under test: ends it at a chosen point of its files.
  add_library(etrace_disk MODULE "${PROJECT_SOURCE_DIR}/tests/cli/disk/disk.cpp")
  target_link_libraries(etrace_disk PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(etrace_disk PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")

  # Part of every test program.
  add_library(etrace_test_rows OBJECT
    "${PROJECT_SOURCE_DIR}/tests/interpreter_by_default.cpp" "${PROJECT_SOURCE_DIR}/tests/strangers.cpp")
  etrace_setup_test_target(etrace_test_rows)
  target_compile_options(etrace_test_rows PRIVATE ${ETRACE_OUTER_OPTIMIZE})

  file(GLOB programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/programs/*.cpp")
  foreach(source IN LISTS programs)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${name} "${source}")
    etrace_setup_test_target(${name})
    target_compile_options(${name} PRIVATE ${ETRACE_OUTER_OPTIMIZE})
    target_link_libraries(${name} PRIVATE etrace_test_support GTest::gtest GTest::gmock rapidcheck)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  endforeach()

  file(GLOB_RECURSE files RELATIVE "${PROJECT_SOURCE_DIR}/tests" CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/tests/*_test.cpp")
  set(folders "")
  foreach(file IN LISTS files)
    if(NOT file MATCHES "^([^/]+)/")
      message(FATAL_ERROR "tests/${file}: tests live in tests/<folder>/; move it")
    endif()
    set(folder "${CMAKE_MATCH_1}")
    list(APPEND folders ${folder})
    if(file MATCHES "_slow_test\\.cpp$")
      list(APPEND slow_${folder} "${PROJECT_SOURCE_DIR}/tests/${file}")
    else()
      list(APPEND fast_${folder} "${PROJECT_SOURCE_DIR}/tests/${file}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    if(fast_${folder})
      etrace_add_test_program(etrace_test_${folder} "${folder}" "${fast_${folder}}")
    endif()
    if(slow_${folder})
      etrace_add_test_program(etrace_test_${folder}_slow "${folder};slow" "${slow_${folder}}")
    endif()
  endforeach()
endfunction()

# The scripts in tools/, and the layer check itself as a test.
function(etrace_add_tool_tests)
  list(JOIN ETRACE_LAYERS "," layers)
  add_test(NAME tools/check_layers
    COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/check_layers.py"
            --root "${PROJECT_SOURCE_DIR}" --expect-layers "${layers}")
  set_tests_properties(tools/check_layers PROPERTIES LABELS tools)
  file(GLOB scripts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/tools/*_test.py")
  foreach(script IN LISTS scripts)
    get_filename_component(name "${script}" NAME_WE)
    add_test(NAME tools/${name} COMMAND "${Python3_EXECUTABLE}" -B "${script}" -v)
    set_tests_properties(tools/${name} PROPERTIES LABELS tools TIMEOUT 300 SKIP_RETURN_CODE 77
      ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER};ETRACE_LIBRARY=$<TARGET_FILE:etrace>;$<$<TARGET_EXISTS:etrace_cli>:ETRACE_CLI=$<TARGET_FILE:etrace_cli>>")
    if(name MATCHES "_page_test$")  # pages in a headless browser
      set_tests_properties(tools/${name} PROPERTIES LABELS "tools;web")
    endif()
  endforeach()
endfunction()

# `etrace check` over every reference case, per stage.
function(etrace_add_reference_tests)
  file(GLOB cases CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/reference/*.json")
  if(NOT TARGET etrace_cli OR NOT cases)
    return()
  endif()
  foreach(stage forward bptt)
    add_test(NAME reference/${stage} COMMAND etrace_cli check --stage ${stage} ${cases})
    set_tests_properties(reference/${stage} PROPERTIES LABELS reference TIMEOUT 600)
  endforeach()
  foreach(stage graph learn)
    add_test(NAME reference/${stage}_compat COMMAND etrace_cli check --stage ${stage} --compat braintrace ${cases})
    set_tests_properties(reference/${stage}_compat PROPERTIES LABELS reference TIMEOUT 600)
  endforeach()
  # By default every run must come out that the reference does not get wrong, but for these files:
  #   net_TwoLayerGRU   D12 changes its graph in scope coupled (layers of equal width stay apart)
  set(default_cases ${cases})
  list(FILTER default_cases EXCLUDE REGEX "/net_TwoLayerGRU\\.json$")
  add_test(NAME reference/learn_default COMMAND etrace_cli check --stage learn ${default_cases})
  add_test(NAME reference/learn_default_D12
           COMMAND etrace_cli check --stage learn "${PROJECT_SOURCE_DIR}/tests/reference/net_TwoLayerGRU.json")
  set_tests_properties(reference/learn_default_D12 PROPERTIES
    PASS_REGULAR_EXPRESSION "FAIL net_TwoLayerGRU: learn: OSTLRecurrent/window[0-9]+: the gradient of rnn1/")
  # Recorded later, with what comes out by default: the spikes of braintools 0.4, latches, shift registers.
  file(GLOB later_cases CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/reference28/*.json")
  foreach(stage forward bptt learn)
    add_test(NAME reference28/${stage} COMMAND etrace_cli check --stage ${stage} ${later_cases})
    set_tests_properties(reference28/${stage} PROPERTIES LABELS reference TIMEOUT 600)
  endforeach()
  # By emitted code: one case of each kind, for compilers take their time.
  set(native_cases struct_while_settle struct_cond_gate op_conv1d_b3 op_sparse_csr)
  list(TRANSFORM native_cases PREPEND "${PROJECT_SOURCE_DIR}/tests/reference/")
  list(TRANSFORM native_cases APPEND .json)
  add_test(NAME reference/learn_native
           COMMAND etrace_cli check --backend native --stage learn --compat braintrace ${native_cases})
  set_tests_properties(reference/learn_native PROPERTIES LABELS "reference;slow" TIMEOUT 600)
  set_tests_properties(reference/learn_default reference/learn_default_D12 PROPERTIES LABELS reference TIMEOUT 600)
endfunction()

# A project of its own that finds an installed etrace, builds against it and runs.
function(etrace_add_install_test)
  set(flags "")
  if(ETRACE_SANITIZE)
    set(flags "-fsanitize=${ETRACE_SANITIZE}")
  endif()
  add_test(NAME install/find_package
    COMMAND "${CMAKE_COMMAND}" -DBUILD_DIR=${PROJECT_BINARY_DIR}
            -DWORK_DIR=${PROJECT_BINARY_DIR}/tests/install -DGENERATOR=${CMAKE_GENERATOR}
            -DCXX=${CMAKE_CXX_COMPILER} -DLAUNCHER=$<$<BOOL:${ETRACE_CCACHE}>:${ETRACE_CCACHE}> -DFLAGS=${flags}
            -DVERSION=${PROJECT_VERSION} -DLIBDIR=${CMAKE_INSTALL_LIBDIR}
            -P "${PROJECT_SOURCE_DIR}/tests/install/run.cmake")
  set_tests_properties(install/find_package PROPERTIES LABELS install TIMEOUT 120)
endfunction()

# The C++ and console blocks of README.md, CONTRIBUTING.md and the pages in docs/, compiled and run.
function(etrace_add_readme_test)
  set(flags "")
  if(ETRACE_SANITIZE)
    set(flags "--flag=-fsanitize=${ETRACE_SANITIZE}")
  endif()
  file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/README.md"
       "${PROJECT_SOURCE_DIR}/CONTRIBUTING.md" "${PROJECT_SOURCE_DIR}/docs/*.md")
  file(GLOB tutorials CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/tutorials/*.md")
  foreach(page IN LISTS pages tutorials)
    file(STRINGS "${page}" shown LIMIT_COUNT 1 REGEX "^```(cpp test=|console|{literalinclude})")
    if(NOT shown)
      continue()
    endif()
    get_filename_component(name "${page}" NAME_WE)
    string(TOLOWER "${name}" name)
    set(beside "")
    if(page IN_LIST tutorials)
      string(PREPEND name tutorial-)
      set(beside --with "${PROJECT_SOURCE_DIR}/examples/tutorials/waves.csv")
    endif()
    add_test(NAME doc/${name}
      COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/check_readme.py"
              --readme "${page}" --work "${PROJECT_BINARY_DIR}/tests/doc/${name}"
              --cxx "${CMAKE_CXX_COMPILER}" --include "${PROJECT_SOURCE_DIR}/include"
              --include "${PROJECT_BINARY_DIR}/generated/include" --library "$<TARGET_FILE:etrace>" ${flags} ${beside}
              --programs "${PROJECT_BINARY_DIR}/examples" --programs "${PROJECT_BINARY_DIR}/tutorials"
              "$<$<TARGET_EXISTS:etrace_cli>:--etrace=$<TARGET_FILE:etrace_cli>>"
      COMMAND_EXPAND_LISTS)
    set_tests_properties(doc/${name} PROPERTIES LABELS doc TIMEOUT 300
      ENVIRONMENT "ETRACE_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/compiled")
  endforeach()
endfunction()

# An example states what it prints in a comment (cmake/RunExample.cmake); the test compares it.
function(etrace_add_examples)
  file(GLOB tutorials CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/tutorials/*.cpp")
  foreach(source IN LISTS tutorials)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(tutorial_${name} "${source}")
    target_link_libraries(tutorial_${name} PRIVATE etrace::etrace etrace_flags etrace_test_warnings)
    target_compile_options(tutorial_${name} PRIVATE ${ETRACE_OUTER_OPTIMIZE})
    etrace_precompile(tutorial_${name} tutorials <etrace/etrace.h>)
    set_target_properties(tutorial_${name} PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tutorials")
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cpp")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(example_${name} "${source}")
    target_link_libraries(example_${name} PRIVATE etrace::etrace etrace_flags etrace_test_warnings)
    target_compile_options(example_${name} PRIVATE ${ETRACE_OUTER_OPTIMIZE})
    target_compile_definitions(example_${name} PRIVATE ETRACE_REFERENCE_DIR="${PROJECT_SOURCE_DIR}/tests/reference")
    set_target_properties(example_${name} PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
    if(ETRACE_BUILD_TESTS)
      add_test(NAME example/${name}
        COMMAND "${CMAKE_COMMAND}" -DPROGRAM=$<TARGET_FILE:example_${name}> -DSOURCE=${source} -DROOT=${PROJECT_SOURCE_DIR}
                -P "${PROJECT_SOURCE_DIR}/cmake/RunExample.cmake")
      set_tests_properties(example/${name} PROPERTIES LABELS example TIMEOUT 300
        ENVIRONMENT "ETRACE_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/compiled")
    endif()
  endforeach()
endfunction()
