#!/bin/bash
# Health check of a node, as prolog or epilog: /home is mounted, and every network file system answers.
# A failure drains the node. HOLDFAST_MOUNTS: another table of mounts than the kernel's, in tests.
set -u
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
fail() { echo "holdfast: mounts: $*" >&2; exit 1; }

mounts=${HOLDFAST_MOUNTS:-/proc/self/mounts}
mountpoint -q /home || fail "/home is not mounted: the job would write to the node's own disk, which goes with it"
# A hung NFS or Lustre blocks whoever touches it: so each is asked by a process that can be left behind.
while read -r _ where type _; do
  case $type in nfs | nfs4 | lustre) ;; *) continue ;; esac
  timeout -s KILL 10 stat -f -- "$where" >/dev/null 2>&1 || fail "$where ($type) does not answer within 10 s"
done <"$mounts"
