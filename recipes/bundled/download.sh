#!/bin/sh
# Fetch and unpack (not install) the Debian packages whose texts are used: 1.6 GB into debs/, 2.9 GB into src/ of the
# work folder. On Debian 12 or in its container; elsewhere the versions, and so the sentences, are others.
#
#   sh recipes/bundled/download.sh [WORK]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-${BUNDLED_WORK:-.}}
mkdir -p "$work/debs" "$work/src"
cd "$work/debs"
missing=
while read -r package; do
  [ -d "../src/$package" ] && continue
  if ! ls "${package}"_*.deb > /dev/null 2>&1 && ! apt-get download -q "$package"; then
    missing="$missing $package"
    continue
  fi
  rm -rf "../src/.$package"
  dpkg -x "${package}"_*.deb "../src/.$package"
  rm -rf "../src/.$package"/usr/share/games/*/data/music
  mv "../src/.$package" "../src/$package"
done < "$here/packages.txt"
if [ -n "$missing" ]; then
  echo "error: not to be had:$missing; run apt-get update, look for a newer name, and start this again" >&2
  exit 1
fi
