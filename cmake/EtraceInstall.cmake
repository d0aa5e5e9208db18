# cmake --install: library, public headers, program with manual and completion, examples, documents, and what
# find_package(etrace) and pkg-config need. cpack makes a Debian package of it.
include(CMakePackageConfigHelpers)

# The manual and the completion are what the program itself prints. Debian wants manuals packed, and so do we.
function(etrace_add_manual)
  set(made "${PROJECT_BINARY_DIR}/share")
  file(MAKE_DIRECTORY "${made}")
  add_custom_command(OUTPUT "${made}/etrace.1.gz" "${made}/etrace" "${made}/_etrace" "${made}/etrace.fish"
    COMMAND etrace_cli man > "${made}/etrace.1"
    COMMAND gzip -9nf "${made}/etrace.1"
    COMMAND etrace_cli completion bash > "${made}/etrace"
    COMMAND etrace_cli completion zsh > "${made}/_etrace"
    COMMAND etrace_cli completion fish > "${made}/etrace.fish"
    DEPENDS etrace_cli COMMENT "Writing the manual page and completions")
  add_custom_target(manual ALL DEPENDS "${made}/etrace.1.gz")
  install(FILES "${made}/etrace.1.gz" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES "${made}/etrace" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES "${made}/_etrace" DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
  install(FILES "${made}/etrace.fish" DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()

# cpack -G DEB: one package with everything. `./dev deb` makes it and tries it on a clean system.
function(etrace_package)
  set(CPACK_PACKAGE_NAME etrace)
  set(CPACK_PACKAGE_CONTACT "etrace maintainers <maintainers@etrace.invalid>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiles recurrent and spiking networks into online learners")
  set(CPACK_PACKAGE_DESCRIPTION "Networks are written in C++ or as model files; learning goes forward in time,
by eligibility traces, with memory that does not grow with the sequence.
This package has the library, its headers, the program etrace, examples
and documents.")
  set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_GENERATOR DEB)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gcc | clang")  # native code; without one the interpreter runs
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libhdf5-103-1")  # data sets in HDF5
  set(CPACK_STRIP_FILES ON)
  include(CPack)
endfunction()

# What is inside, with versions and licences, for those who have to keep books: SPDX. The versions are those that CMake
# has found; what depends on no file is written when it configures.
set(ETRACE_SBOM "${PROJECT_BINARY_DIR}/share/etrace.spdx.json")
function(etrace_write_sbom)
  set(toml "")
  find_path(ETRACE_TOML toml++/toml.h)
  mark_as_advanced(ETRACE_TOML)
  if(ETRACE_TOML)
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS "${ETRACE_TOML}/toml++/impl/version.h" line REGEX "define TOML_LIB_${part}" LIMIT_COUNT 1)
      string(REGEX MATCH "[0-9]+$" number "${line}")
      list(APPEND toml "${number}")
    endforeach()
    list(JOIN toml "." toml)
  endif()
  execute_process(COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/sbom.py"
    --root "${PROJECT_SOURCE_DIR}" --out "${ETRACE_SBOM}" --version "${PROJECT_VERSION}"
    "fmt=${fmt_VERSION}" "nlohmann_json=${nlohmann_json_VERSION}" "CLI11=${CLI11_VERSION}" "tomlplusplus=${toml}"
    "nanobind=${nanobind_VERSION}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Licence, changes, pages and examples. The pages as a site, too, where `./dev docs` has made it.
function(etrace_install_documents)
  set(made "${PROJECT_BINARY_DIR}/share")
  file(CONFIGURE OUTPUT "${made}/copyright" @ONLY CONTENT
"Copyright: 2026 the etrace authors

Licensed under the Apache License, Version 2.0. You may not use these files except in compliance with it.
On Debian systems its full text is in /usr/share/common-licenses/Apache-2.0. What others have written of what is
compiled in, and their licences, are in the file NOTICE beside this one, and in etrace.spdx.json.
")
  add_custom_command(OUTPUT "${made}/changelog.gz" DEPENDS "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
    COMMAND gzip -9nc "${PROJECT_SOURCE_DIR}/CHANGELOG.md" > "${made}/changelog.gz" COMMENT "Packing the changelog")
  add_custom_target(changelog ALL DEPENDS "${made}/changelog.gz")
  install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" "${ETRACE_SBOM}" "${made}/copyright" "${made}/changelog.gz"
    DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md"
    PATTERN "*.svg")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/build/docs/" DESTINATION ${CMAKE_INSTALL_DOCDIR}/html OPTIONAL
    PATTERN ".buildinfo" EXCLUDE PATTERN "objects.inv" EXCLUDE)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/tutorials" DESTINATION ${CMAKE_INSTALL_DOCDIR}/python
    FILES_MATCHING PATTERN "*.py")
endfunction()

function(etrace_install)
  set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/etrace")
  install(TARGETS etrace EXPORT etraceTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  foreach(variant IN LISTS ETRACE_KERNEL_VARIANTS)
    install(TARGETS etrace_${variant}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/x86-64-${variant} NAMELINK_SKIP)
  endforeach()
  if(TARGET etrace_cli)
    install(TARGETS etrace_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    etrace_add_manual()
  endif()
  install(EXPORT etraceTargets NAMESPACE etrace:: DESTINATION ${config_dir})
  configure_package_config_file(cmake/etraceConfig.cmake.in "${PROJECT_BINARY_DIR}/etraceConfig.cmake"
    INSTALL_DESTINATION ${config_dir})
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/etraceConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/etraceConfig.cmake" "${PROJECT_BINARY_DIR}/etraceConfigVersion.cmake"
    DESTINATION ${config_dir})
  set(pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  file(RELATIVE_PATH ETRACE_PC_TO_PREFIX "/prefix/${pc_dir}" "/prefix")
  configure_file(cmake/etrace.pc.in "${PROJECT_BINARY_DIR}/etrace.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/etrace.pc" DESTINATION ${pc_dir})
  etrace_install_documents()
  if(PROJECT_IS_TOP_LEVEL)
    etrace_package()
  endif()
endfunction()
