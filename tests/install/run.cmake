# Installs the build in BUILD_DIR into WORK_DIR/prefix, then configures, builds and runs the project beside
# this file against it, by find_package and by pkg-config. Set by the test: BUILD_DIR WORK_DIR GENERATOR CXX
# LAUNCHER FLAGS VERSION LIBDIR.
function(step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code STREQUAL "0")
    message(FATAL_ERROR "${what} failed (${code}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
step("install" "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${WORK_DIR}/prefix")
step("configure" "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK_DIR}/build" -G "${GENERATOR}"
  "-DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=${FLAGS}"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DEXPECT_VERSION=${VERSION}")
step("build" "${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
step("run" "${WORK_DIR}/build/consumer")
message("${output}")
if(NOT output MATCHES "consumer runs with etrace ${VERSION}")
  message(FATAL_ERROR "unexpected output")
endif()

# The same without CMake, from a tree that was moved after it was installed.
find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
file(RENAME "${WORK_DIR}/prefix" "${WORK_DIR}/moved")
set(ENV{PKG_CONFIG_PATH} "${WORK_DIR}/moved/${LIBDIR}/pkgconfig")
step("pkg-config" "${pkg_config}" "--exact-version=${VERSION}" etrace)
step("pkg-config" "${pkg_config}" --cflags --libs etrace)
separate_arguments(words UNIX_COMMAND "${output} ${FLAGS}")
step("compile" ${LAUNCHER} "${CXX}" "${CMAKE_CURRENT_LIST_DIR}/pkg_config.cpp" -c -o "${WORK_DIR}/pkg_config.o" ${words})
step("link" "${CXX}" "${WORK_DIR}/pkg_config.o" -o "${WORK_DIR}/by_pkg_config" ${words} "-Wl,-rpath,${WORK_DIR}/moved/${LIBDIR}")
step("run" "${WORK_DIR}/by_pkg_config")
if(NOT output MATCHES "f32\\[2\\] \\[1, 2\\]")
  message(FATAL_ERROR "unexpected output: ${output}")
endif()
file(RENAME "${WORK_DIR}/moved" "${WORK_DIR}/prefix")

if(EXISTS "${WORK_DIR}/prefix/bin/etrace")
  step("installed program" "${WORK_DIR}/prefix/bin/etrace" --help)
endif()
