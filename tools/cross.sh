#!/usr/bin/env bash
# Cross-builds Scoria and runs the tests that need no GPU, on Debian 12 or 13 as root or through sudo; for Windows
# also some on this machine's lavapipe.
#   tools/cross.sh aarch64|windows     aarch64: gcc, tests under qemu-user; windows: MinGW, tests under Wine
# What the target needs is gathered in .cache/cross/TARGET: headers are this machine's own, libraries are
# Debian's for arm64, or built from Debian's sources for Windows. Run again, it only builds and tests.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-}
root=$PWD/.cache/cross/$target
apt=$PWD/.cache/cross/apt-$target  # lists and packages of its own, so that the machine's apt stays as it is

say() { printf '[cross] %s\n' "$*" >&2; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

case $target in
    aarch64)
        packages=(g++-aarch64-linux-gnu qemu-user)
        architecture=arm64 ;;
    windows)
        packages=(g++-mingw-w64-x86-64-posix libz-mingw-w64-dev wine64 dpkg-dev xvfb xauth)
        architecture=$(dpkg --print-architecture) ;;
    *) say "expected aarch64 or windows, got '$target'"; exit 2 ;;
esac

install_packages() {
    dpkg-query -W -f='${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -cx installed |
        grep -qx ${#packages[@]} && return
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 install -y \
        --no-install-recommends "${packages[@]}" >&2
}

own_apt() {
    apt-get -q -o Dir::State="$apt" -o Dir::State::status=/dev/null -o Dir::Cache="$apt" \
        -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/sources" -o APT::Sandbox::User=root \
        -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
        -o Debug::NoLocking=1 "$@" >&2
}

# The suite of this machine's own sources that it mostly consists of, with sources.
make_own_apt() {
    mkdir -p "$apt/sources" "$apt/archives/partial" "$apt/lists/partial"
    . /etc/os-release
    awk 'BEGIN{RS=""} NR==1' /etc/apt/sources.list.d/*.sources |
        sed "s/^Types:.*/Types: $1/; s/^Suites:.*/Suites: $VERSION_CODENAME/" >"$apt/sources/own.sources"
    own_apt update
}

# What headers alone are is the same everywhere.
copy_headers() {
    mkdir -p "$root"
    dpkg -L nlohmann-json3-dev libcli11-dev doctest-dev libstb-dev libvulkan-dev libvulkan-volk-dev \
        libvulkan-memory-allocator-dev | grep -E '^/usr/(include|share/cmake|lib/cmake)/' |
        tar -cf - --no-recursion -T - | tar -xf - -C "$root"
}

gather_aarch64() {
    make_own_apt deb
    own_apt install -y --download-only --no-install-recommends \
        libpcre2-dev zlib1g-dev libcurl4-openssl-dev libspirv-cross-c-shared-dev
    local deb
    for deb in "$apt"/archives/*.deb; do
        case $deb in  # the cross compiler has its own
            */libc6* | */linux-libc* | */libgcc-s1* | */libstdc++6* | */libcrypt-dev* | */*-bin_* | */gcc-*) ;;
            *) dpkg -x "$deb" "$root" ;;
        esac
    done
}

gather_windows() {
    make_own_apt deb-src
    local source
    for source in pcre2 spirv-cross; do
        (cd "$apt" && own_apt source $source)
    done
    local toolchain=$PWD/tools/toolchains/windows.cmake build=(-G Ninja -DCMAKE_BUILD_TYPE=Release
        "-DCMAKE_INSTALL_PREFIX=$root/usr" -DBUILD_SHARED_LIBS=OFF)
    cmake -S "$apt"/pcre2-*/ -B "$apt/pcre2-build" "${build[@]}" -DCMAKE_TOOLCHAIN_FILE="$toolchain" \
        -DPCRE2_SUPPORT_JIT=ON -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF
    cmake --build "$apt/pcre2-build" --target install
    cmake -S "$apt"/spirv-cross-*/ -B "$apt/spirv-cross-build" "${build[@]}" -DCMAKE_TOOLCHAIN_FILE="$toolchain" \
        -DSPIRV_CROSS_CLI=OFF -DSPIRV_CROSS_ENABLE_TESTS=OFF \
        -DSPIRV_CROSS_ENABLE_{GLSL,HLSL,MSL,CPP,REFLECT,C_API,UTIL}=OFF
    cmake --build "$apt/spirv-cross-build" --target install
}

# Wine's Vulkan reaches this machine's drivers, once there is a display. Two tests are left out: Wine hands neither
# a changed environment nor a host's VkAllocationCallbacks on to them.
on_lavapipe() {
    local driver cases="vulkan: tiny models reproduce their goldens,vulkan: stored verdicts*,vulkan: SmolLM2 continues*"
    driver=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json)
    local run=(xvfb-run -a env SCORIA_FEW_MODELS=1 VK_DRIVER_FILES="$driver" /usr/lib/wine/wine64)
    "${run[@]}" build/windows/test_platform.exe --source-file="*device_test.cpp" --test-case-exclude="without a driver*"
    "${run[@]}" build/windows/test_model.exe --test-case="$cases"
    "${run[@]}" build/windows/test_library.exe --test-case-exclude="every object on a host's device*"
}

# What would ship, as its own build: tests have assertions in theirs.
check_dll() {
    cmake --preset windows -B build/windows-release -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS= \
        -DSCORIA_BUILD_APPS=OFF -DBUILD_TESTING=OFF
    cmake --build build/windows-release --target scoria_shared
    STRIP=x86_64-w64-mingw32-strip NM=x86_64-w64-mingw32-nm OBJDUMP=x86_64-w64-mingw32-objdump \
        tools/check_library.sh build/windows-release/scoria.dll
}

export WINEPREFIX=$PWD/.cache/cross/wine WINEDEBUG=-all
tools/setup.sh --test
install_packages
if [ ! -e "$root/.complete" ]; then
    say "gathering what $target needs in $root"
    rm -rf "$root" "$apt"
    copy_headers
    "gather_$target"
    rm -rf "$apt"
    touch "$root/.complete"
fi
cmake --preset "$target"
cmake --build --preset "$target"
ctest --preset "$target"
if [ "$target" = windows ]; then
    on_lavapipe
    check_dll
fi
