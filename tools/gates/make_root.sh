#!/usr/bin/env bash
# Makes a root folder with the newest Mesa (Debian sid), whose CPU driver has cooperative matrices and whose other
# drivers compile for most GPUs; `chroot DIR scoria ...` and compile_only.py --root DIR run there. Needs root and
# debootstrap; about 700 MB and two minutes. Run again, it only mounts.
#   tools/gates/make_root.sh DIR
# Intel's GPUs also want libintel_noop_drm_shim.so of Mesa's sources (meson -Dtools=drm-shim,intel) in DIR/usr/local/lib.
set -euo pipefail
[ $# = 1 ] || { echo "usage: tools/gates/make_root.sh DIR" >&2; exit 2; }
root=$1

# The archive that this machine already uses.
mirror() { sed -nE 's/^URIs: +([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1; }

if [ ! -e "$root/.complete" ]; then
    debootstrap --variant=minbase --include=mesa-vulkan-drivers,mesa-drm-shim,vulkan-validationlayers,libcurl4t64 \
        sid "$root" "$(mirror)"
    touch "$root/.complete"
fi
# What the program was linked with here, and the suite has only newer.
lib=usr/lib/$(uname -m)-linux-gnu
cp -P /$lib/libcpp-httplib.so.* "$root/$lib"
for folder in proc dev; do
    mountpoint -q "$root/$folder" || mount --bind /$folder "$root/$folder"
done
