# Looks for headers, libraries and packages of the target in `root`, and nowhere on this machine.
get_filename_component(root ${root} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${root})
list(APPEND CMAKE_SYSTEM_PREFIX_PATH /usr) # after the hints of this build, whose tools come first
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/pkgconfig)
foreach(language C CXX)
  set(CMAKE_${language}_STANDARD_INCLUDE_DIRECTORIES ${root}/usr/include)
endforeach()
