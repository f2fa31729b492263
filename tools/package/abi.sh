#!/usr/bin/env bash
# Compares the C interface's types (functions, structs, enums) with the stored ones in scoria.abi by abidiff, so
# that a break is made on purpose and told in CHANGELOG.
#   tools/package/abi.sh [--update]     --update: stores the interface as it is
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
headers=$here/../../engine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One object whose type mentions every function and struct of the headers: with debug information it is what
# abidw reads, at no build of the library.
{
    printf '#include "scoria.h"\n#include "scoria_vulkan.h"\nstruct abi {\n'
    sed -nE 's/^SCORIA_API .*\b(scoria_[a-z_]+)\(.*/    __typeof__(\&\1) f_\1;/p' \
        "$headers/scoria.h" "$headers/scoria_vulkan.h"
    sed -nE 's/^} (scoria_[a-z_]+);.*/    \1 t_\1;/p' "$headers/scoria.h" "$headers/scoria_vulkan.h"
    printf '} scoria_abi;\n'
} >"$work/abi.c"
gcc -g -shared -fPIC -I"$headers" -o "$work/libabi.so" "$work/abi.c"
abidw --no-show-locs --no-comp-dir-path --no-corpus-path "$work/libabi.so" |
    sed "s|$work/||g; s|$headers/||g" >"$work/scoria.abi"
if [ "${1:-}" = --update ]; then
    cp "$work/scoria.abi" "$here/scoria.abi"
    exit
fi
abidiff --no-default-suppression "$here/scoria.abi" "$work/scoria.abi" || {
    echo "[abi] expected the interface of tools/package/scoria.abi; if the change is meant, tell it in CHANGELOG" \
        "and run tools/package/abi.sh --update"
    exit 1
}
