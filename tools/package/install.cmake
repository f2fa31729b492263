# What `cmake --install` and `cpack` put where, the static library, and `uninstall`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

target_include_directories(scoria_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(scoria_shared PROPERTIES EXPORT_NAME scoria)
# The names that find_package gives, for projects that add this folder.
add_library(scoria::scoria ALIAS scoria_shared)
add_library(scoria::scoria_static ALIAS scoria_engine)

# All rooms, PCRE2 and zlib in one object whose symbols are its own but for scoria_*: a host may link its own
# PCRE2, volk or allocator beside it.
set(static_library ${CMAKE_BINARY_DIR}/libscoria.a)
if(UNIX AND NOT APPLE AND NOT SCORIA_SANITIZE)
  set(rooms scoria_engine scoria_loader scoria_vulkan scoria_os scoria_shaders)
  list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  list(POP_FRONT archives engine)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/libscoria.o)
  add_custom_command(OUTPUT ${static_library}
    COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -o ${object} -Wl,--force-group-allocation
      -Wl,--whole-archive ${engine} -Wl,--no-whole-archive
      -Wl,--start-group ${archives} ${SCORIA_LIB_pcre2-8} ${SCORIA_LIB_z} -Wl,--end-group
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=scoria_* --strip-debug ${object}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${static_library}
    COMMAND ${CMAKE_AR} rcs ${static_library} ${object}
    DEPENDS ${rooms} ${archives} ${engine} VERBATIM COMMENT "Linking libscoria.a")
  add_custom_target(scoria_static ALL DEPENDS ${static_library})
  install(FILES ${static_library} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# --- files ------------------------------------------------------------------------------------------
install(TARGETS scoria_shared EXPORT scoria LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET scoria)
  install(TARGETS scoria RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET scoria_desktop) # an example: cmake --install BUILD --component desktop, and in no package
  file(RELATIVE_PATH lib_from_bin "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(scoria_desktop PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  install(TARGETS scoria_desktop RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT desktop EXCLUDE_FROM_ALL)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/scoria)
install(EXPORT scoria NAMESPACE scoria:: FILE scoria-targets.cmake DESTINATION ${config_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/scoria-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/scoria-config.cmake INSTALL_DESTINATION ${config_folder}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/scoria-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/scoria-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/scoria-config-version.cmake DESTINATION ${config_folder})

# Paths relative to the file itself, so that an installation can be moved.
file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(${CMAKE_CURRENT_LIST_DIR}/scoria.pc.in ${CMAKE_CURRENT_BINARY_DIR}/scoria.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/scoria.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
    -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake VERBATIM)
  # --- packages: cpack --config build/release/CPackConfig.cmake -----------------------------------------
  set(CPACK_GENERATOR DEB TGZ)
  set(CPACK_PACKAGE_VENDOR "Scoria")
  set(CPACK_PACKAGE_CONTACT "The Scoria authors")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Transformer models on any GPU with a Vulkan driver: program and library")
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS libvulkan1)  # opened at run time, so no linker knows of it
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS mesa-vulkan-drivers)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  include(CPack)
endif()
