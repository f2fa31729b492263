#!/usr/bin/env bash
# Installs what Scoria needs on Debian 12 or 13 and Ubuntu 24.04, as root or through sudo. Safe to run
# again: what is there is left alone, and a complete machine takes a second.
#   tools/setup.sh [--run-only | --test] [--desktop] [--fuzz]
# --run-only: build and run; --test (default): also the tests; --desktop: the chat window and its test, too;
# --fuzz: a compiler that has libFuzzer
set -euo pipefail
cd "$(dirname "$0")/.."
mode=--test
desktop=
fuzz=
tools=.cache/tools

say() { printf '[setup] %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
for flag in "$@"; do
    case $flag in
        --run-only | --test) mode=$flag ;;
        --desktop) desktop=1 ;;
        --fuzz) fuzz=1 ;;
        *) die "expected --run-only, --test, --desktop or --fuzz, got $flag" ;;
    esac
done

root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
apt_get() { root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >&2; }

[ -r /etc/os-release ] && . /etc/os-release
system="${ID:-unknown} ${VERSION_ID:-}"
case $system in
    "debian 12" | "debian 13" | "ubuntu 24.04") ;;
    *) command -v apt-get >/dev/null || die "expected Debian 12, Debian 13 or Ubuntu 24.04, got $system"
       say "$system is untested; going on as on Debian 13" ;;
esac

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
newer() { dpkg --compare-versions "$(dpkg-query -W -f='${Version}' "$1" 2>/dev/null || echo 0)" ge "$2"; }

packages=(g++ cmake ninja-build pkg-config git ca-certificates libvulkan-dev libvulkan-volk-dev
    libvulkan-memory-allocator-dev glslang-tools spirv-tools libspirv-cross-c-shared-dev zlib1g-dev
    nlohmann-json3-dev libcli11-dev libstb-dev libcurl4-openssl-dev libcpp-httplib-dev libpcre2-dev mesa-vulkan-drivers
    python3-pip)
[ "$mode" = --test ] && packages+=(doctest-dev vulkan-validationlayers libsentencepiece-dev abigail-tools
    dpkg-dev file python3-dev python3-venv mesa-drm-shim debootstrap)
case $mode/$ID in
    --test/ubuntu) say "no SwiftShader on Ubuntu (its chromium is a snap): tests on it are left out" ;;
    --test/*) packages+=(chromium-common) ;;  # SwiftShader's library and json
esac
[ -z "$desktop" ] || packages+=(libimgui-dev libsdl2-dev libdrm-dev fonts-dejavu-core)
[ -z "$fuzz" ] || packages+=(clang libclang-rt-dev)
case $mode/$desktop in --test/1) packages+=(xvfb xdotool xclip imagemagick) ;; esac
case $mode/$system in
    "--test/debian 12") packages+=(clang-format-14 clang-tidy-14) ;;  # another version would format otherwise
    --test/*) packages+=(libprotobuf-dev) ;;  # libsentencepiece-dev's pkg-config file names it, its package does not
esac

# Debian 12 alone is too old in three places: Mesa (backports), VMA and glslang (trixie). Both suites come
# from the archive that the machine already uses; trixie is pinned so low that nothing else moves to it.
add_suites() {
    local folder=/etc/apt/sources.list.d suite
    for suite in bookworm-backports trixie; do
        grep -rqsE "^(Suites:|deb ).*\b$suite( |\$)" /etc/apt/sources.list $folder && continue
        if [ -s $folder/debian.sources ]; then
            awk 'BEGIN{RS=""} NR==1' $folder/debian.sources | sed "s/^Suites:.*/Suites: $suite/" |
                root tee $folder/$suite.sources >/dev/null
        else
            sed -nE "s/^deb (\[[^]]*\] )?([^ ]+) bookworm .*/deb \1\2 $suite main/p" /etc/apt/sources.list | head -n 1 |
                root tee $folder/$suite.list | grep -q . || die "expected a source of Debian 12 in /etc/apt, got none"
        fi
        update=1
    done
    if ! grep -rqs 'release n=trixie' /etc/apt/preferences.d; then
        printf 'Package: *\nPin: release n=trixie\nPin-Priority: 50\n' | root tee /etc/apt/preferences.d/trixie >/dev/null
    fi
}

update=0
backports=
if [ "$system" = "debian 12" ]; then
    add_suites
    backports=/bookworm-backports
fi
wanted=()
for package in "${packages[@]}"; do
    case $backports/$package in
        /bookworm-backports/mesa-*) newer $package 25 || wanted+=($package$backports) ;;
        /bookworm-backports/libdrm-dev) newer $package 2.4.123 || wanted+=($package$backports) ;;  # of that Mesa
        *) installed $package || wanted+=($package) ;;
    esac
done
if [ ${#wanted[@]} != 0 ] || [ $update = 1 ]; then
    say "installing: ${wanted[*]}"
    apt_get update
    [ ${#wanted[@]} = 0 ] || apt_get install -y --no-install-recommends "${wanted[@]}"
fi

# A glslang that knows cooperative matrices. Installing trixie's on Debian 12 would replace the C library,
# so it is unpacked, C library included, into a private folder and run by its own loader.
knows_matrices() {
    local glslang=$1 folder result=0
    folder=$(mktemp -d)
    printf '#version 460\n#extension GL_NV_cooperative_matrix2 : require\n#extension GL_EXT_integer_dot_product : require\nvoid main() {}\n' >"$folder/probe.comp"
    "$glslang" -V --target-env vulkan1.3 -o "$folder/probe.spv" "$folder/probe.comp" >/dev/null 2>&1 || result=1
    rm -r "$folder"
    return $result
}

private_glslang() {
    local work package name
    say "unpacking a newer glslang into $tools"
    work=$(mktemp -d)
    (cd "$work" && for package in glslang-tools spirv-tools libc6 libstdc++6 libgcc-s1; do
        apt-get -q -o APT::Sandbox::User=root download $package/trixie
    done) >&2
    rm -rf $tools
    mkdir -p $tools/root $tools/bin
    for package in "$work"/*.deb; do dpkg -x "$package" $tools/root; done
    rm -r "$work" $tools/root/usr/share
    for name in glslang spirv-val; do
        cat >$tools/bin/$name <<WRAPPER
#!/bin/sh
usr=\$(dirname "\$(readlink -f "\$0")")/../root/usr
lib=\$usr/lib/$(uname -m)-linux-gnu
exec "\$lib"/ld-linux-*.so.* --library-path "\$lib" "\$usr/bin/$name" "\$@"
WRAPPER
        chmod +x $tools/bin/$name
    done
    knows_matrices $tools/bin/glslang || die "the unpacked glslang does not work"
}

if [ -x $tools/bin/glslang ] && knows_matrices $tools/bin/glslang; then
    :
elif knows_matrices "$(command -v glslang || command -v glslangValidator)"; then
    :
elif [ "$system" = "debian 12" ]; then
    private_glslang
else
    say "this system's glslang is old: matrix-unit variants will be left out"
fi
say "ready"
