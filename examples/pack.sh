#!/bin/sh
# Packs charts and profiles of the examples in the format of the API: a
# gzip-compressed tar for each app (<app>.tgz, with the chart in a folder with the name of
# the app) and for each profile (<app>-profile.tgz).
#
#   pack.sh OUT APP...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
shift
mkdir -p "$out"
for app in "$@"; do
  tar -czf "$out/$app.tgz" -C "$here/charts" "$app"
  tar -czf "$out/$app-profile.tgz" -C "$here/profiles/$app" .
done
