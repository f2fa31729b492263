# Removes the files that the last `cmake --install` wrote: cmake -DMANIFEST=install_manifest.txt -P this
if(NOT EXISTS "${MANIFEST}")
  message(FATAL_ERROR "[uninstall] expected ${MANIFEST}, which `cmake --install` writes, got none")
endif()
file(STRINGS "${MANIFEST}" files)
foreach(file ${files})
  message(STATUS "Removing $ENV{DESTDIR}${file}")
  file(REMOVE "$ENV{DESTDIR}${file}")
endforeach()
