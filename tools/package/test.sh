#!/usr/bin/env bash
# Installs a build, moves the installation, builds the examples outside the tree against it (CMake and
# pkg-config, C99 and C++17, shared and static), runs them, makes packages, uninstalls.
#   tools/package/test.sh BUILD MODEL.gguf
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd) model=$2
[ -f "$model" ] || { echo "[package] expected a model file, got $model" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "[package] $*" >&2; exit 1; }
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }; }
question="What is the capital of France?"

quiet cmake --install "$build" --prefix "$work/first" --strip
cp -a "$work/first" "$work/moved"
quiet cmake --build "$build" --target uninstall
left=$(find "$work/first" -type f -o -type l)
[ -z "$left" ] || fail "expected nothing after uninstall, got: $left"
prefix=$work/moved
lib=$(dirname "$(find "$prefix" -name libscoria.so)")
"$source/tools/check_library.sh" "$lib/libscoria.so"
ldd "$lib/libscoria.so" | sed 's/^/[package] /'
foreign=$(nm -g --defined-only "$lib/libscoria.a" | awk 'NF == 3 && $3 !~ /^scoria_/ {print $3}')
[ -z "$foreign" ] || fail "expected only scoria_ symbols in libscoria.a, got: $foreign"

cp -r "$source/tools/examples" "$work/examples"
for file in "$work"/examples/{stream,batch}.*; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 40 ] || fail "expected at most 40 lines, got $lines in $file"
done
quiet cmake -S "$work/examples" -B "$work/out" -DCMAKE_PREFIX_PATH="$prefix"
quiet cmake --build "$work/out"
export PKG_CONFIG_PATH=$lib/pkgconfig
strict=(-Wall -Wextra -pedantic -Werror)
# shellcheck disable=SC2046
quiet gcc -std=c99 "${strict[@]}" "$work/examples/stream.c" $(pkg-config --cflags --libs scoria) -Wl,-rpath,"$lib" -o "$work/out/stream_c_pc"
# shellcheck disable=SC2046
quiet g++ -std=c++17 "${strict[@]}" "$work/examples/stream.cpp" $(pkg-config --cflags --libs scoria) -Wl,-rpath,"$lib" -o "$work/out/stream_cpp_pc"

expected=$("$prefix/bin/scoria" run -m "$model" -p "$question" -n 32 --seed 0 2>/dev/null)
for program in "$work"/out/stream_{c,cpp}{,_static}; do
    answer=$("$program" "$model" "$question")
    [ "$answer" = "$expected" ] || fail "expected of $(basename "$program"): $expected, got: $answer"
done
questions=("$question" "Write a line about the sea.")
alone=$(for each in "${questions[@]}"; do
    "$prefix/bin/scoria" run -m "$model" -p "$each" -n 32 --seed 0 --deterministic 2>/dev/null
done | sort)
for program in "$work"/out/batch_c{,_static}; do
    together=$("$program" "$model" "${questions[@]}" | sort)
    [ "$together" = "$alone" ] || fail "expected of $(basename "$program"): $alone, got: $together"
done
echo "[package] the examples answered as the program does: $expected"
# More tokens than the model's context, of which none is left out in silence.
long=$(printf 'word %.0s' {1..20000})
for program in "$work"/out/{stream_c,stream_cpp,batch_c}; do
    said=$("$program" "$model" "$long" 2>&1) || true
    grep -q 'expected' <<<"$said" || fail "expected $(basename "$program") to refuse a long question, got: $said"
done
for program in "$work"/out/stream_{c,cpp}_pc; do
    ! "$program" /nowhere.gguf x 2>"$work/log" || fail "expected a failure for a missing model"
    grep -q '^\[' "$work/log" || fail "expected an error that says where, got: $(cat "$work/log")"
done

quiet cpack --config "$build/CPackConfig.cmake" -B "$work/packages" -D CPACK_THREADS=0
deb=$(ls "$work"/packages/*.deb) archive=$(ls "$work"/packages/*.tar.gz)
in_deb=$(dpkg-deb -c "$deb") in_archive=$(tar -tzf "$archive") depends=$(dpkg-deb -f "$deb" Depends)
for part in scoria.h scoria_vulkan.h libscoria.so libscoria.a scoria-config.cmake scoria.pc bin/scoria; do
    grep -q "/$part" <<<"$in_deb" || fail "expected $part in the .deb"
    grep -q "/$part" <<<"$in_archive" || fail "expected $part in the .tar.gz"
done
for package in libvulkan1 libstdc++6; do
    grep -q "$package" <<<"$depends" || fail "expected the .deb to depend on $package, got: $depends"
done
echo "[package] $(basename "$deb") $(stat -c %s "$deb") bytes, $(basename "$archive") $(stat -c %s "$archive") bytes"
