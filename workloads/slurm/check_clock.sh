#!/bin/bash
# Health check of a node, as prolog: its clock is right. munge refuses credentials, and the trainer's lease of its
# checkpoints errs, where clocks differ. A failure drains the node. No clock's keeper, no check.
set -u
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
fail() { echo "holdfast: clock: $*" >&2; exit 1; }

if command -v chronyc >/dev/null; then
  # The last columns of 14: seconds that it is off is the 5th, whether it is kept at all the last.
  IFS=, read -r _ _ _ _ off _ _ _ _ _ _ _ _ leap < <(timeout 5 chronyc -c tracking 2>/dev/null)
  [ -n "${leap:-}" ] || fail "chronyd does not answer"
  [ "$leap" != "Not synchronised" ] || fail "it is not synchronised"
  awk -v off="$off" 'BEGIN { exit !(off < 1 && off > -1) }' || fail "it is off by $off s"
elif command -v timedatectl >/dev/null; then
  # Asked of systemd: one that does not run tells nothing.
  kept=$(timeout 5 timedatectl show --property=NTPSynchronized --value 2>/dev/null) || exit 0
  [ "$kept" = yes ] || fail "it is not synchronised"
fi
