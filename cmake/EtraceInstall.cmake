# cmake --install: library, public headers, program with manual and completion, examples, documents, and what
# find_package(etrace) and pkg-config need. cpack makes a Debian package and a source archive of it.
include(CMakePackageConfigHelpers)

# The manual and the completion are what the program itself prints.
function(etrace_add_manual)
  set(made "${PROJECT_BINARY_DIR}/share")
  file(MAKE_DIRECTORY "${made}")
  add_custom_command(OUTPUT "${made}/etrace.1" "${made}/etrace" "${made}/_etrace" "${made}/etrace.fish"
    COMMAND etrace_cli man > "${made}/etrace.1"
    COMMAND etrace_cli completion bash > "${made}/etrace"
    COMMAND etrace_cli completion zsh > "${made}/_etrace"
    COMMAND etrace_cli completion fish > "${made}/etrace.fish"
    DEPENDS etrace_cli COMMENT "Writing the manual page and completions")
  add_custom_target(manual ALL DEPENDS "${made}/etrace.1")
  install(FILES "${made}/etrace.1" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES "${made}/etrace" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES "${made}/_etrace" DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
  install(FILES "${made}/etrace.fish" DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()

# cpack -G DEB: one package with everything; cpack --config CPackSourceConfig.cmake: the sources.
function(etrace_package)
  set(CPACK_PACKAGE_NAME etrace)
  set(CPACK_PACKAGE_CONTACT "etrace maintainers <maintainers@etrace.invalid>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_PACKAGE_DESCRIPTION "${PROJECT_DESCRIPTION}: library, headers, command line, examples and documents.")
  set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_GENERATOR DEB)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gcc | clang")  # native code; without one the interpreter runs
  set(CPACK_STRIP_FILES ON)
  set(CPACK_SOURCE_GENERATOR TXZ)
  set(CPACK_SOURCE_PACKAGE_FILE_NAME "etrace-${PROJECT_VERSION}")
  set(CPACK_SOURCE_IGNORE_FILES "/build/;/\\\\.git/;/\\\\.ci/;/runs/;__pycache__")
  include(CPack)
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
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
    DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md"
    PATTERN "*.svg")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION ${CMAKE_INSTALL_DOCDIR})
  if(PROJECT_IS_TOP_LEVEL)
    etrace_package()
  endif()
endfunction()
