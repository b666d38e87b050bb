#!/bin/sh
# Build the wheel for 64-bit Arm with Debian's cross compiler, then install and test it in an arm64 root of Debian under
# emulation. For root, with the packages debootstrap, g++-aarch64-linux-gnu and qemu-user-static; `make wheel-aarch64`.
#
# usage: tests/aarch64.sh PYTHON    (PYTHON: of version 3.11, as Debian 12's, with the extra dev)
set -eu
python=$1
here=$(cd "$(dirname "$0")/.." && pwd)
root=${AARCH64_ROOT:-$here/build/aarch64-root}
wheels=$root/wheels
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
# TORCH is the reference of the laws; of later releases PyPI has builds for Arm with CUDA's packages only.
TORCH=${AARCH64_TORCH:-torch==2.6.0}

# The packages are unpacked and not configured: Python needs no more.
if [ ! -x "$root/usr/bin/python3.11" ]; then
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3.11,libpython3.11-dev,libstdc++6,libgomp1 \
        bookworm "$root" "$mirror"
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
fi
mkdir -p "$wheels" "$root/opt" "$root/tmp/binfmt"

rm -f "$wheels"/uwaga-*.whl
env _PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=.cpython-311-aarch64-linux-gnu.so \
    CMAKE_ARGS="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
-DPython_INCLUDE_DIR=$root/usr/include/python3.11 -DCMAKE_CXX_FLAGS=-idirafter$root/usr/include" \
    "$python" -m pip wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir "$wheels" "$here"
ls -l "$wheels"/uwaga-*.whl

download() {
    "$python" -m pip download --quiet --dest "$wheels" --only-binary=:all: --implementation cp --python-version 3.11 \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 --platform linux_aarch64 "$@"
}
if [ ! -e "$wheels/complete" ]; then
    download pip "$wheels"/uwaga-*.whl
    download pytest hypothesis filelock fsspec jinja2 networkx sympy
    download --no-deps "$TORCH"
    touch "$wheels/complete"
fi

rm -rf "$root/opt/tests"
cp -R "$here/tests" "$here/pyproject.toml" "$root/opt/"
cat > "$root/tmp/inside.sh" <<'INSIDE'
set -eu
cd /opt
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore OMP_NUM_THREADS=1
pip() { python3.11 "$(echo /wheels/pip-*.whl)/pip" "$@"; }
rm -rf uwaga peers
pip install --quiet --no-compile --target uwaga uwaga
du -sm --apparent-size uwaga
export PYTHONPATH=/opt/uwaga
python3.11 -m uwaga translate "I want to buy a car."
python3.11 tests/support/check_installed.py
pip install --quiet --no-compile --no-deps --target peers torch typing_extensions filelock fsspec jinja2 markupsafe mpmath \
    networkx sympy hypothesis sortedcontainers pytest iniconfig packaging pluggy pygments
export PYTHONPATH=/opt/uwaga:/opt/peers
python3.11 -m pytest -q -p no:cacheprovider -m "not slow and not release" tests/engine/test_engine_positions.py \
    tests/engine/test_engine_distinct_rows.py tests/engine/test_engine_shortlist.py tests/engine/test_huge_pages.py \
    tests/engine/test_engine.py tests/engine/test_engine_recurrent.py tests/engine/test_engine_attentions.py \
    tests/engine/test_engine_prompts.py tests/engine/test_engine_batches.py tests/engine/test_running_batch.py
INSIDE

# Programs for Arm start by themselves in a namespace of this script alone.
cat > "$root/tmp/enter.sh" <<'ENTER'
set -eu
mount -t binfmt_misc binfmt_misc "$1/tmp/binfmt"
emulator=$(command -v qemu-aarch64-static)
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":uwaga-aarch64:M::$magic:$mask:$emulator:F" > "$1/tmp/binfmt/register"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" /bin/bash /tmp/inside.sh
ENTER
exec unshare --user --map-root-user --mount --pid --fork sh "$root/tmp/enter.sh" "$root"
