"""One writer a folder: a small file names the holder and the time until which it holds, unless it renews.

A mounted bucket has no locks (the last write wins) and may show another mount's file as it was 60 s ago (GCS FUSE's
stat cache: cloud.google.com/storage/docs/cloud-storage-fuse/caching). The holder renews after a third of the lease, so
what another mount sees of a living holder is at most lease/3 + 60 s old: safe while two thirds of the lease are more
than 60 s and the difference of two clocks. What no such file can prevent: two that start in the same moment both
believe that they hold, until their next look; and a holder stopped between its look and its write writes all the same.
"""

import contextlib
import errno
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads.trainer import files

FILE = "lease.json"
VERSION = 1
_KEYS = frozenset({"holder", "execution", "attempt", "seconds", "expires"})
_LOOKS = 20  # a waiting writer's, during one lease


class AnotherWriter(Exception):
    """The folder belongs to somebody else: exit code 3."""


class Lease:
    """This process's claim to a folder. `lost` is set once another has taken it."""

    def __init__(self, path: Path, *, execution: str, attempt: int, seconds: float, on_lost: Callable[[str], None]):
        """execution: without a name, nobody vouches that an earlier attempt is gone: it is waited out.

        on_lost: called once, with a message, from whatever thread finds out.
        """
        self.lost = threading.Event()
        self._path, self._seconds, self._on_lost = path, seconds, on_lost
        self._execution, self._attempt = execution, attempt
        holder = f"{execution or 'local'}/{attempt}/{secrets.token_hex(4)}"
        self._mine = {"v": VERSION, "holder": holder, "execution": execution, "attempt": attempt, "seconds": seconds}
        self._lock = threading.Lock()
        self._held = False

    def acquire(self, stop: threading.Event, on_wait: Callable[[str, float], None]) -> bool:
        """Takes the lease, and renews it from then on in a thread of its own; False when `stop` was set meanwhile.

        Waits for another's to run out, at most as long as that lease lasts; on_wait: called with the holder and the
        seconds. Raises AnotherWriter when it was renewed instead, OSError when it cannot be read or written.
        """
        found = self._read()
        if found and not self._succeeds(found) and not self._outwait(found, stop, on_wait):
            return False
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._write()
        self._held = True
        threading.Thread(target=self._keep, name="lease", daemon=True).start()
        return True

    def renew(self) -> None:
        """To be called before every write. Raises AnotherWriter when lost, OSError when nobody can tell."""
        with self._lock:
            if self.lost.is_set():
                raise AnotherWriter(f"{self._path.parent} was taken over before")
            if not self._held:
                return
            found = self._read()
            if not found or found["holder"] == self._mine["holder"]:
                self._write()
                return
            self._held = False
            self.lost.set()
        message = f"{self._path.parent} was taken over by {found['holder']}; this attempt writes nothing more"
        self._on_lost(message)
        raise AnotherWriter(message)

    def release(self) -> None:
        """Lets the next writer in at once. What cannot be released runs out."""
        with self._lock, contextlib.suppress(OSError):
            found = self._read() if self._held else None
            self._held = False
            if found and found["holder"] == self._mine["holder"]:
                self._path.unlink()

    def _succeeds(self, found: dict[str, Any]) -> bool:
        """Whether we are a later attempt of the holder's task: the platform runs one at a time."""
        same = self._execution != "" and found["execution"] == self._execution
        return same and bool(found["attempt"] < self._attempt)

    def _outwait(self, found: dict[str, Any], stop: threading.Event, on_wait: Callable[[str, float], None]) -> bool:
        # Not longer than the lease lasts, whatever the holder's clock says: a living one would have renewed.
        seconds = max(0.0, min(found["expires"] - time.time(), found["seconds"]))
        on_wait(found["holder"], seconds)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if stop.wait(min(left, found["seconds"] / _LOOKS)):
                return False
            try:
                now = self._read()
            except OSError as error:
                if error.errno != errno.ESTALE:  # GCS FUSE: replaced on another mount since we last looked
                    raise
                continue
            if not now or self._succeeds(now):
                return True
            if now != found:
                raise AnotherWriter(
                    f"{self._path.parent} has another writer, {now['holder']}, which has just renewed its lease; "
                    "nothing was changed. Cancel that execution or let it end, or use another HOLDFAST_RUN_ID"
                )
        return True

    def _read(self) -> dict[str, Any] | None:
        return files.read(self._path, VERSION, _KEYS)

    def _write(self) -> None:
        files.replace(self._path, self._mine | {"expires": time.time() + self._seconds})

    def _keep(self) -> None:
        while self._held:
            time.sleep(self._seconds / 3)
            # A mount that fails now may be back before the lease has run out.
            with contextlib.suppress(OSError, AnotherWriter):
                self.renew()
