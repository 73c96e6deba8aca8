#!/bin/bash
# Health check of a node, as prolog or epilog: there is room on the node's own disk, and it can be written to.
# A failure drains the node.
set -uo pipefail
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
fail() { echo "holdfast: disk: $*" >&2; exit 1; }

for where in / /tmp; do
  free=$(df --output=avail -k "$where" | tail -n 1) || fail "$where cannot be looked at"
  [ "$free" -ge $((1024 * 1024)) ] || fail "$where has $((free / 1024)) MiB left, less than 1024: a past job filled it"
done
# A disk with errors is mounted again for reading only.
{ probe=$(mktemp /tmp/holdfast.XXXXXX) && rm -f "$probe"; } || fail "/tmp cannot be written to"
