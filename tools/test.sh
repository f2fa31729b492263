#!/usr/bin/env bash
# Sets up, builds with warnings as errors, and runs the tests. Ends with ctest's own closing lines.
#   tools/test.sh [--wide | --deep]
# Nothing, as CI runs it: every room, lavapipe below validation layers, ops at three subgroup widths, the floor on
# SwiftShader. --wide, half an hour and more: also models at another width and both below profiles of poorer devices,
# and readers of untrusted bytes under sanitizers.
# --deep, hours: also all cases and profiles, models and matrix products at 16 lanes, the whole program under sanitizers,
# clang-tidy, Python, the chat window, other systems, a minute of fuzzing for every reader.
set -euo pipefail
cd "$(dirname "$0")/.."
wide=
deep=
whole=OFF
case ${1:-} in
    "") ;;
    --wide) wide=1 ;;
    --deep) wide=1; deep=1; whole=ON; export SCORIA_DEEP=1 ;;
    *) echo "[test] expected --wide, --deep or nothing, got $1" >&2; exit 2 ;;
esac

stage() {
    local name=$1 start=$SECONDS
    shift
    "$@"
    printf '[stage] %s %d s\n' "$name" $((SECONDS - start))
}

format() {
    if ! command -v clang-format-14 >/dev/null; then
        echo "[test] no clang-format-14 here: formatting is not checked"
        return
    fi
    git ls-files '*.h' '*.cpp' | xargs clang-format-14 --dry-run --Werror
}

build() {
    cmake --preset ci -DSCORIA_BUILD_DESKTOP=$whole -DSCORIA_DEEP_TESTS=$whole
    cmake --build --preset ci
}

fetch_model() { SCORIA_MODEL=$(build/ci/scoria pull smollm2); }

# Hostile bytes under the address and undefined-behaviour sanitizers: the loader's tests and the fuzz
# targets over their seeds; deep, every test that is not arithmetic alone. Drivers leak, so leaks count
# only where no driver is in the process. Of undefined behaviour null and misaligned pointers, and objects of other
# types or sizes, are deep: they take four tenths of the compiler's time.
sanitize() {
    local checks=address,bool,bounds,enum,integer-divide-by-zero,pointer-overflow,return,shift,signed-integer-overflow,unreachable
    [ -z "$deep" ] || checks=address,undefined
    cmake --preset asan -DSCORIA_DEEP_TESTS=$whole -DSCORIA_SANITIZE=$checks
    cmake --build --preset asan --target test_loader test_grammar fuzz_gguf fuzz_grammar fuzz_jinja fuzz_json_schema fuzz_safetensors fuzz_sentencepiece fuzz_tokenizer_json
    ctest --preset asan -R '^(loader|grammar|fuzz)'
    [ -n "$deep" ] || return 0
    cmake --build --preset asan
    ASAN_OPTIONS=detect_leaks=0 ctest --preset asan -R '^(platform|layer|engine|apps|library)'
}

# Everything of ours that starts threads, or is called from several.
threads() {
    cmake --preset tsan -DSCORIA_DEEP_TESTS=$whole
    cmake --build --preset tsan --target test_platform test_engine test_apps test_library test_model
    TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp ctest --preset tsan -R '^(platform|engine|apps|library)\.lavapipe$'
    TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp build/tsan/test_model --source-file='*upload_test*'
}

tidy() {
    if ! command -v clang-tidy-14 >/dev/null; then
        echo "[test] no clang-tidy-14 here: not checked"
        return
    fi
    # File by file, unlike the unity build: this also finds an include that only a neighbour has.
    cmake --preset test -DSCORIA_BUILD_DESKTOP=ON
    cmake --build --preset test --target scoria_shaders scoria_desktop_shaders
    sed -i 's/ -fno-gnu-unique//' build/test/compile_commands.json  # GCC's alone
    git ls-files '*.cpp' | grep -vE '^(tests|tools/(python|examples)|platform/os/windows)/' | xargs -P 2 -n 4 clang-tidy-14 -p build/test --quiet --warnings-as-errors='*'
}

run_tests() {
    local quick=()
    [ -n "$wide" ] || quick=(--label-exclude wide)
    ctest --preset ci -j 2 "${quick[@]}"
}

# What is installed, as hosts meet it.
package() { tools/package/test.sh build/ci "$SCORIA_MODEL"; }

# The compilers of two of AMD's GPUs, on fake kernel devices: everything compiles, and nothing spills.
gates() {
    tools/gates/compile_only.py --scoria build/ci/scoria --model "$SCORIA_MODEL" polaris10 navi31
    tools/gates/compile_only.py --scoria build/ci/scoria --full --op attention polaris10 navi31  # heads of all widths
}

# Runs two functions side by side.
both() {
    "$1" &
    local first=$!
    "$2"
    wait "$first"
}

# Runs [VARIABLE=VALUE...] COMMAND... on the CPU driver of the root folder that `newest` makes.
in_newest() { chroot "$PWD/.cache/newest" env VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json "$@"; }

# The newest Mesa, in a root folder of its own: matrix units on its CPU driver, and the compilers of all GPUs.
newest() {
    local root=$PWD/.cache/newest
    tools/gates/make_root.sh "$root"
    cp build/ci/scoria "$root/scoria"
    cp "$SCORIA_MODEL" "$root/model.gguf"
    in_newest /scoria validate --op linear --full
    in_newest /scoria validate --op attention --full
    tools/gates/compile_only.py --root "$root" --scoria /scoria --model /model.gguf
    tools/gates/compile_only.py --root "$root" --scoria /scoria
    tools/gates/compile_only.py --root "$root" --scoria /scoria --full --op attention
}

# No index leaves its buffer: GPU-assisted validation of all kernels, and of models whose weights are hostile. By the
# layer of Debian 12, since those of 1.4.309 and later crash on lavapipe, in the root folder of `newest`, whose LLVM
# compiles instrumented kernels ten times as fast; without matrix units, which that layer does not know.
assisted() {
    local root=$PWD/.cache/newest fixtures=${SCORIA_FIXTURES:-../shared/fixtures}
    mkdir -p "$root/layer" "$root/fixtures"
    mountpoint -q "$root/fixtures" || mount --bind "$fixtures" "$root/fixtures"
    cp "/usr/lib/$(uname -m)-linux-gnu/libVkLayer_khronos_validation.so" "$root/layer"
    sed 's#"library_path": "#&./#' /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json >"$root/layer/layer.json"
    cp build/ci/scoria build/ci/test_model "$root"
    echo '{"cooperative_matrix": false}' >"$root/no_matrix.json"
    local run=(in_newest VK_LAYER_PATH=/layer VK_LAYER_MESSAGE_ID_FILTER=VUID-VkPhysicalDeviceProperties2-pNext-pNext)
    "${run[@]}" VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT /scoria validate --validation --caps /no_matrix.json
    "${run[@]}" SCORIA_GPU_ASSISTED=1 SCORIA_DEEP=1 SCORIA_VALIDATION=1 SCORIA_CAPS=/no_matrix.json SCORIA_FIXTURES=/fixtures \
        /test_model --test-case="*hostile*"
}

# Nobody reads in shared memory what another lane may be writing, which CPU drivers, whose lanes go in step, would not
# tell. By the newest layer, in the root folder of `newest`; that it can tell, an example shows that has a race.
races() {
    local root=$PWD/.cache/newest example
    cp build/ci/scoria "$root"
    in_newest /scoria validate --races
    for example in rms_norm rms_norm_race; do
        glslangValidator -V --target-env vulkan1.2 -o "$root/$example.spv" "tools/examples/$example.comp"
    done
    in_newest /scoria validate --races --shader /rms_norm.spv --as rms_norm
    ! in_newest /scoria validate --races --shader /rms_norm_race.spv --as rms_norm
}

# The library alone, as releases have it; and the Python package, which pip builds from the source tree.
bindings() {
    cmake --preset library
    cmake --build --preset library
    tools/check_library.sh build/library/libscoria.so
    tools/python/test.sh "$SCORIA_MODEL"
}

# The chat window on a virtual screen, driven by keys.
window() { tests/desktop/run.py build/ci "$SCORIA_MODEL"; }

# Other systems, by cross compilers; what needs no GPU runs under qemu-user and Wine.
cross() {
    tools/cross.sh aarch64
    tools/cross.sh windows
}

# Whether validation notices a shader that is wrong; of matrix units in the root folder of `newest`.
mutations() {
    cmake --preset test
    cmake --build --preset test --target scoria mutant
    tests/mutations/run.py build/test --root "$PWD/.cache/newest"
}

stage setup tools/setup.sh --test ${deep:+--desktop --fuzz}
stage format format
stage build build
stage model fetch_model
export SCORIA_MODEL
[ -z "$wide" ] || stage asan sanitize
[ -z "$deep" ] || stage tsan threads
[ -z "$deep" ] || stage tidy tidy
stage package_and_gates both package gates  # one core each
[ -z "$deep" ] || stage bindings bindings
[ -z "$deep" ] || stage desktop window
[ -z "$deep" ] || stage newest newest
[ -z "$deep" ] || stage assisted assisted
[ -z "$deep" ] || stage races races
[ -z "$deep" ] || stage cross cross
[ -z "$deep" ] || stage mutations mutations
[ -z "$deep" ] || stage fuzz tools/fuzz.sh 60
stage tests run_tests
printf '[stage] all %d s\n' "$SECONDS"
