# GCC for 64-bit Arm Linux; libraries as tools/cross.sh gathers them; what is built here runs under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triple aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(root ${CMAKE_CURRENT_LIST_DIR}/../../.cache/cross/aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/root.cmake)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/${triple} -E LD_LIBRARY_PATH=${root}/usr/lib/${triple})
# Of shared libraries that ours need in their turn.
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${root}/usr/lib/${triple})
