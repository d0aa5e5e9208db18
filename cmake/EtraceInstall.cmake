# cmake --install: library, public headers, program, and what find_package(etrace) and pkg-config need.
include(CMakePackageConfigHelpers)

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
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()
