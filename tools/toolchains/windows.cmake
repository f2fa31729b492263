# MinGW for 64-bit Windows, with its POSIX threads; libraries as tools/cross.sh gathers them; what is built here
# runs under Wine.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(triple x86_64-w64-mingw32)
set(CMAKE_C_COMPILER ${triple}-gcc-posix)
set(CMAKE_CXX_COMPILER ${triple}-g++-posix)
set(CMAKE_RC_COMPILER ${triple}-windres)
set(root ${CMAKE_CURRENT_LIST_DIR}/../../.cache/cross/windows)
include(${CMAKE_CURRENT_LIST_DIR}/root.cmake)
list(APPEND CMAKE_FIND_ROOT_PATH /usr/${triple})
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/lib/wine/wine64)
# No DLL but the system's: the compiler's libraries go into each program.
foreach(kind EXE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -static)
endforeach()
