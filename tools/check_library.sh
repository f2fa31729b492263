#!/usr/bin/env bash
# Checks libscoria.so: under 5 MB when stripped, and no dynamic symbol but the C interface's.
set -euo pipefail
library=$1
stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
strip -o "$stripped" "$library"
bytes=$(stat -c %s "$stripped")
echo "[library] $bytes bytes stripped"
[ "$bytes" -lt 5000000 ] || { echo "[library] expected under 5000000 bytes stripped, got $bytes"; exit 1; }
exports=$(nm -D --defined-only "$library" | awk '{print $3}')
grep -q '^scoria_' <<<"$exports" || { echo "[library] expected scoria_ symbols, got none"; exit 1; }
others=$(grep -v '^scoria_' <<<"$exports" || true)
[ -z "$others" ] || { echo "[library] expected only scoria_ symbols, got also:"; echo "$others"; exit 1; }
