#!/bin/sh
# Installs a release of EMCO: downloads the archive for this machine, checks its sum, and copies the
# programs and manual pages.
#
#   install.sh [--version v1.2.3] [--prefix DIR] [--only PROGRAM] [--url URL]
#
#   --version   release to install (default: the latest one)
#   --prefix    folder for bin/ and share/man/ (default: $EMCO_PREFIX, else /usr/local as root, else ~/.local)
#   --only      install this program alone, such as emcoctl; emco-temporal is installed by its name only
#   --url       where releases are: URL/VERSION/FILE (default: the project's releases, or $EMCO_RELEASES)
#
# It needs curl, tar, and sha256sum or shasum. On Windows, unpack the .zip of the release by hand.
set -eu

url=${EMCO_RELEASES:-https://github.com/emco-orchestrator/emco/releases/download}
version='' prefix=${EMCO_PREFIX:-} only=''

fail() { echo "install.sh: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    --version | --prefix | --only | --url)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case $1 in --version) version=$2 ;; --prefix) prefix=$2 ;; --only) only=$2 ;; --url) url=$2 ;; esac
      shift 2 ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "$1 is not an option; --help lists them" ;;
  esac
done

for tool in curl tar; do
  command -v "$tool" >/dev/null || fail "$tool is missing; install it first"
done
if command -v sha256sum >/dev/null; then sum='sha256sum'
elif command -v shasum >/dev/null; then sum='shasum -a 256'
else fail 'neither sha256sum nor shasum is here, so the download cannot be checked; install coreutils first'
fi

os=$(uname -s) arch=$(uname -m)
case $os in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) fail "there is no archive for $os; on Windows, unpack the .zip of the release by hand" ;;
esac
case $arch in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "there is no archive for $arch machines: build the programs with make build" ;;
esac

if [ -z "$version" ]; then
  latest=${url%/download}/latest # it leads to the page of a version
  version=$(curl -fsSL -o /dev/null -w '%{url_effective}' "$latest") || fail "the latest release is not known: $latest does not answer; give --version"
  version=${version##*/}
fi
case $version in
  v[0-9]*) ;;
  *) fail "$version is not a version such as v1.2.3" ;;
esac
if [ -z "$prefix" ]; then
  if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=emco
[ "$only" != emco-temporal ] || archive=emco-temporal # its archive is one of its own
name=${archive}_${version}_${os}_${arch}
for file in "$name.tar.gz" checksums.txt; do
  curl -fsSL --retry 3 -o "$work/$file" "$url/$version/$file" || fail "cannot download $url/$version/$file; is $version a release?"
done
(
  cd "$work"
  awk -v file="$name.tar.gz" '$2 == file' checksums.txt >expected
  [ -s expected ] || fail "checksums.txt does not list $name.tar.gz; nothing was installed"
  $sum -c expected >/dev/null 2>&1 || fail "$name.tar.gz does not have the sum in checksums.txt; nothing was installed"
  tar -xzf "$name.tar.gz"
)

if [ -n "$only" ] && [ ! -f "$work/$name/bin/$only" ]; then
  fail "the release has no program $only; it has: $(cd "$work/$name/bin" && echo *)"
fi
mkdir -p "$prefix/bin" "$prefix/share/man/man1" || fail "$prefix cannot be written; give --prefix, or run as root"
for file in "$work/$name/bin/"*; do
  program=${file##*/}
  if [ -n "$only" ] && [ "$program" != "$only" ]; then continue; fi
  cp "$file" "$prefix/bin/.$program.new" && chmod 755 "$prefix/bin/.$program.new" && mv "$prefix/bin/.$program.new" "$prefix/bin/$program"
  for page in "$work/$name/man/man1/$program"*.1; do
    if [ -f "$page" ]; then cp "$page" "$prefix/share/man/man1/"; fi
  done
  echo "installed $prefix/bin/$program $version"
done
case :$PATH: in
  *":$prefix/bin:"*) ;;
  *) echo "add $prefix/bin to PATH" ;;
esac
