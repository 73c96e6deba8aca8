#!/bin/bash
# Health check of a node, as prolog or epilog: all of its GPUs answer, without memory errors, and the driver has logged
# none of the errors after which a GPU has to be reset or replaced. A failure drains the node.
# A node without GPUs has nothing to check. HOLDFAST_DEV: another folder than /dev, in tests.
set -u
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
fail() { echo "holdfast: GPUs: $*" >&2; exit 1; }

# The driver makes a file for each GPU that it found at boot.
shopt -s nullglob
devices=("${HOLDFAST_DEV:-/dev}"/nvidia[0-9]*)
expected=${#devices[@]}
if ! command -v nvidia-smi >/dev/null; then
  [ "$expected" = 0 ] || fail "there are $expected, but no nvidia-smi"
  exit 0
fi

# It hangs where a GPU does.
found=$(timeout -s KILL 30 nvidia-smi --query-gpu=index,ecc.errors.uncorrected.volatile.total \
  --format=csv,noheader,nounits 2>&1) || fail "nvidia-smi fails: $found"
count=$(grep -c '^[0-9]' <<<"$found")
[ "$count" -ge "$expected" ] || fail "$count of $expected answer"
for each in $(tr , " " <<<"${SLURM_JOB_GPUS:-}"); do
  [ "$each" -lt "$count" ] || fail "the job is given GPU $each, and $count answer"
done
while IFS=', ' read -r gpu errors; do
  case $errors in
    '' | 0 | *N/A*) ;; # a GPU may have no ECC
    *) fail "GPU $gpu has $errors uncorrected memory errors since it was reset" ;;
  esac
done <<<"$found"

# https://docs.nvidia.com/deploy/xid-errors: 48 and 95 memory, 64 a row that cannot be remapped, 74 NVLink, 79 off the
# bus, 119 and 120 its own processor. Others come of programs (13, 31, 43), or are mended (63, 94).
xid=$(dmesg 2>/dev/null | grep -E 'NVRM: Xid \([^)]*\): (48|64|74|79|95|119|120),' | tail -n 1)
[ -z "$xid" ] || fail "the driver has logged ${xid#*NVRM: }"
