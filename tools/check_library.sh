#!/usr/bin/env bash
# Checks libscoria.so, or scoria.dll, as a guest: small when stripped (5 MB; 7 for Windows); no symbol for others but the C
# interface's; nothing needed but the C and C++ libraries, or Windows' own (the Vulkan loader is opened at run
# time). Of libscoria.so also: no call that prints, ends the process or reads its environment; nothing of effect
# run when it is loaded. STRIP, NM and OBJDUMP are those of its system.
set -euo pipefail
library=$1
: "${STRIP:=strip}" "${NM:=nm}" "${OBJDUMP:=objdump}"
stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
fail() { echo "[library] expected $1, got:"; echo "$2"; exit 1; }

"$STRIP" -o "$stripped" "$library"
bytes=$(stat -L -c %s "$stripped")
echo "[library] $bytes bytes stripped"

case $library in
    *.dll)  # the C++ library is in it, and MinGW's linker keeps all functions, since unwind information names them
        most=7000000
        exports=$("$OBJDUMP" -p "$library" | awk '/^\[Ordinal\/Name Pointer\]/ {on = 1; next} NF == 0 {on = 0} on {print $NF}')
        needed=$("$OBJDUMP" -p "$library" | awk '$1 == "DLL" {print $3}')
        allowed='^(KERNEL32|SHELL32|msvcrt)\.dll$' ;;
    *)
        most=5000000
        exports=$("$NM" -D --defined-only "$library" | awk '{print $3}')
        needed=$("$OBJDUMP" -p "$library" | awk '$1 == "NEEDED" {print $2}')
        allowed='^(libc|libm|libstdc\+\+|libgcc_s|ld-linux[a-z0-9-]*)\.so\.[0-9]+$' ;;
esac
[ "$bytes" -lt $most ] || fail "under $most bytes stripped" "$bytes"
grep -q '^scoria_' <<<"$exports" || fail "scoria_ symbols" none
others=$(grep -v '^scoria_' <<<"$exports" || true)
[ -z "$others" ] || fail "only scoria_ symbols" "$others"
needed=$(grep -vE "$allowed" <<<"$needed" || true)
[ -z "$needed" ] || fail "to need only the system's own libraries" "$needed"
case $library in *.dll) exit ;; esac

# __assert_fail is that of builds with assertions; releases have none.
banned='^(getenv|secure_getenv|setenv|putenv|exit|_exit|quick_exit|abort|printf|puts|putchar|perror|fork|system|popen|signal|sigaction|stdout|stderr|_ZSt4(cout|cerr|clog)|_ZNSt8ios_base4InitC1Ev)$'
calls=$("$NM" -D --undefined-only "$library" | awk '{print $2}' | sed 's/@.*//' | grep -E "$banned" || true)
[ -z "$calls" ] || fail "no such call" "$calls"

# One entry is the compiler's own, on Arm one more, which asks for the CPU's atomics; the other is a constant of the Vulkan
# Memory Allocator, set to 0.
atomics=$("$NM" "$library" | grep -c ' init_have_lse_atomics$' || true)
entries=$((16#$("$OBJDUMP" -h "$library" | awk '$2 == ".init_array" {print $3}') / 8))
[ "$entries" -le $((2 + atomics)) ] || fail "at most $((2 + atomics)) initialisers" "$entries: $("$NM" -C "$library" | grep '_GLOBAL__sub_I' || true)"
