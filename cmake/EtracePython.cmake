# The Python package: python/src/*.cpp -> extension module etrace._core, python/etrace/ -> the package around it.
#
# Two ways to build it:
#   in a preset   the extension lies in build/<preset>/python/etrace beside links to the .py files, linked against
#                 the preset's library: PYTHONPATH=build/<preset>/python runs it without a wheel. Its tools
#                 (nanobind, NumPy, pytest) are in the virtual environment build/venv that `./dev setup` makes.
#   as a wheel    by pip, which brings nanobind along (pyproject.toml); ETRACE_WHEEL is then ON.
# ETRACE_BUILD_PYTHON=AUTO builds it where the virtual environment is there.
include_guard()
set(ETRACE_BUILD_PYTHON AUTO CACHE STRING "Build the Python package: ON, OFF, AUTO (if build/venv is there)")
option(ETRACE_WHEEL "Build for a wheel: nothing is needed at run time but the C and C++ libraries and zlib" OFF)

# Sets Python_EXECUTABLE and nanobind_ROOT, or ETRACE_PYTHON_MISSING: why there is no package.
macro(etrace_find_python)
  set(ETRACE_PYTHON_MISSING "")
  if(NOT DEFINED Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/build/venv/bin/python")
    set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/build/venv/bin/python")
  endif()
  if(NOT DEFINED Python_EXECUTABLE AND NOT ETRACE_BUILD_PYTHON STREQUAL "ON")
    set(ETRACE_PYTHON_MISSING "there is no build/venv; ./dev setup makes it, and needs the network for that")
  else()
    find_package(Python 3.10 COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
    if(NOT Python_FOUND)
      set(ETRACE_PYTHON_MISSING "no Python 3.10 or newer with its headers was found")
    else()
      execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
        OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT RESULT_VARIABLE failed ERROR_QUIET)
      if(failed)
        set(ETRACE_PYTHON_MISSING "${Python_EXECUTABLE} has no nanobind")
      endif()
    endif()
  endif()
endmacro()

function(etrace_add_python)
  if(NOT ETRACE_BUILD_PYTHON OR ETRACE_LAST_LAYER)
    return()
  endif()
  etrace_find_python()
  if(ETRACE_PYTHON_MISSING)
    if(ETRACE_BUILD_PYTHON STREQUAL "ON")
      message(FATAL_ERROR "the Python package cannot be built: ${ETRACE_PYTHON_MISSING}")
    endif()
    message(STATUS "no Python package: ${ETRACE_PYTHON_MISSING}")
    if(ETRACE_BUILD_TESTS)  # counted, not forgotten
      add_test(NAME python/all COMMAND "${CMAKE_COMMAND}" -E echo "skipped: ${ETRACE_PYTHON_MISSING}")
      set_tests_properties(python/all PROPERTIES LABELS python SKIP_REGULAR_EXPRESSION "skipped")
    endif()
    return()
  endif()
  find_package(nanobind CONFIG REQUIRED)
  set(nanobind_VERSION "${nanobind_VERSION}" PARENT_SCOPE)  # for etrace_write_sbom()
  add_subdirectory(python)
  if(ETRACE_BUILD_TESTS)
    etrace_add_python_tests()
  endif()
endfunction()

# The C++ side of python/tests/test_twins.py: the first random models of its generator, as a program.
function(etrace_add_python_twins)
  set(folder "${PROJECT_SOURCE_DIR}/python/tests/twins")
  set(models "${PROJECT_BINARY_DIR}/generated/twins/models.h")
  add_custom_command(OUTPUT "${models}" DEPENDS "${folder}/generator.py"
    COMMAND "${Python_EXECUTABLE}" -B "${folder}/generator.py" "${models}" COMMENT "Generating twins/models.h")
  add_executable(etrace_python_twins "${folder}/main.cpp" "${models}")
  target_compile_definitions(etrace_python_twins PRIVATE ETRACE_TWINS="${models}")
  target_link_libraries(etrace_python_twins PRIVATE etrace::etrace etrace_flags etrace_test_warnings)
  target_compile_options(etrace_python_twins PRIVATE ${ETRACE_OUTER_OPTIMIZE})
  set_target_properties(etrace_python_twins PROPERTIES
    OUTPUT_NAME twins RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  add_dependencies(etrace_python etrace_python_twins)  # so that ./dev python has it
endfunction()

# python/tests/test_*.py and python/tests/interop/test_*.py: one test each, label python.
function(etrace_add_python_tests)
  etrace_add_python_twins()
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/tests/test_*.py"
    "${PROJECT_SOURCE_DIR}/python/tests/interop/test_*.py")
  # Its run-time library must come first in a program that knows nothing of it, and finds the functions that it
  # stands in for (those of exceptions) only in what is loaded by then.
  set(sanitizer "")
  if(ETRACE_SANITIZE MATCHES "address")
    foreach(library libasan.so libstdc++.so)
      execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=${library}
        OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE file)
      list(APPEND preloaded "${file}")
    endforeach()
    string(REPLACE ";" ":" preloaded "${preloaded}")
    set(sanitizer ";LD_PRELOAD=${preloaded};ASAN_OPTIONS=detect_leaks=0")
  endif()
  foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME_WE)
    string(REGEX REPLACE "^test_" "" name "${name}")
    add_test(NAME python/${name} COMMAND "${Python_EXECUTABLE}" -m pytest -q -rs "${file}"
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    # pytest returns 5 where nothing could be collected: a package that the file is about is not installed
    set_tests_properties(python/${name} PROPERTIES LABELS python TIMEOUT 300 SKIP_RETURN_CODE 5 ENVIRONMENT
      "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=1;ETRACE_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/compiled;ETRACE_TWINS_PROGRAM=$<TARGET_FILE:etrace_python_twins>;ETRACE_LIBRARY=$<TARGET_FILE:etrace>;$<$<TARGET_EXISTS:etrace_cli>:ETRACE_CLI=$<TARGET_FILE:etrace_cli>>${sanitizer}")
  endforeach()
endfunction()
