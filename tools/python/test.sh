#!/usr/bin/env bash
# Installs the Python package with pip into an environment of its own, against an installed Scoria if a prefix is
# given, else building the library from the source tree; tests it, its types and the example.
#   tools/python/test.sh MODEL.gguf [PREFIX]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
model=$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
settings=(-C build-dir="$work/build")
[ $# -lt 2 ] || settings+=(-C cmake.define.scoria_DIR="$(dirname "$(find "$2" -name scoria-config.cmake)")")
export SCORIA_FIXTURES=${SCORIA_FIXTURES:-$here/../../../shared/fixtures}
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "${settings[@]}" "$here" mypy
cd "$work"  # away from the source, which is not the package
"$work/venv/bin/mypy" --strict -p scoria
"$work/venv/bin/mypy" --strict "$here/../examples/stream.py"
if [ -d "$SCORIA_FIXTURES" ]; then
    cp "$here/test_scoria.py" .
    "$work/venv/bin/python" -m unittest -q test_scoria
fi
answer=$("$work/venv/bin/python" "$here/../examples/stream.py" "$model" "What is the capital of France?")
[ -n "$(sed -n 1p <<<"$answer")" ] && [ "$(sed -n 1p <<<"$answer")" = "$(sed -n 2p <<<"$answer")" ] || {
    echo "[python] expected two equal answers, got: $answer" >&2
    exit 1
}
echo "[python] $(sed -n 1p <<<"$answer")"
