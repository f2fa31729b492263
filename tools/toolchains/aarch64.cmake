# GCC for 64-bit Arm Linux; libraries as tools/cross.sh gathers them; what is built here runs under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triple aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(root ${CMAKE_CURRENT_LIST_DIR}/../../.cache/cross/aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/root.cmake)
# Shared libraries, and those that they need in their turn.
set(libraries ${root}/usr/lib/${triple}:${root}/lib/${triple})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/${triple} -E LD_LIBRARY_PATH=${libraries})
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${libraries})
