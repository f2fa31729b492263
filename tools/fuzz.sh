#!/usr/bin/env bash
# Fuzzes every reader of untrusted bytes under the address and undefined-behaviour sanitizers, two at a time.
#   tools/fuzz.sh [SECONDS [TARGET...]]     SECONDS for each target: 600; TARGET: gguf, jinja, ... (tests/fuzz)
# What covers something new is kept in .cache/fuzz/TARGET and used the next time; what breaks a target is
# left in .cache/fuzz/TARGET-broken and fails this script. An input may take two minutes: a grammar as ambiguous as is
# accepted takes up to a second a token, without sanitizers and on an idle core.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
[[ $seconds =~ ^[0-9]+$ ]] || { echo "[fuzz] expected seconds, got $seconds" >&2; exit 2; }
shift || true
targets=("$@")
[ ${#targets[@]} != 0 ] || targets=($(cd tests/fuzz && ls *_fuzz.cpp | sed 's/_fuzz\.cpp$//'))

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]/#/fuzz_}"

fuzz() {
    local target=$1 seconds=$2 folder=.cache/fuzz
    mkdir -p $folder/$target $folder/$target-broken
    if ! build/fuzz/fuzz_$target -max_total_time=$seconds -timeout=120 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix=$folder/$target-broken/ -seed_inputs=@build/fuzz/fuzz_$target.seeds $folder/$target >$folder/$target.log 2>&1; then
        tail -n 40 $folder/$target.log
        echo "[fuzz] $target: broken, see $folder/$target-broken"
        return 1
    fi
    printf '[fuzz] %s: clean, %s\n' $target "$(grep -E 'number_of_executed_units|new_units_added' $folder/$target.log | sed 's/stat:://; s/: */ /' | paste -sd, -)"
}
export -f fuzz
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c "fuzz {} $seconds"
