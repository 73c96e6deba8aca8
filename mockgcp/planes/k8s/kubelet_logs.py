"""What containers have written, as a kubelet serves it to the API server: `kubectl logs`, and all clients' pods/log.

A container's program writes into files. Each look takes the lines that are new and says when it saw them, as a
container runtime does with what it reads from a pipe: times are as exact as looks are frequent. Pods that nothing runs
for have written nothing. Path and parameters: kubernetes/pkg/kubelet/server (getContainerLogs); others are refused.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from mockgcp.planes.k8s.api import Object

Key = tuple[str, str]
"""A pod's namespace and name."""
_FOLLOW_S = 0.1
_PARAMETERS = ("follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "tailLines", "timestamps")


@dataclass
class _Written:
    """What one pod has written. `read`: by file, how many bytes of it are in `lines`."""

    uid: str
    ended: bool = False
    lines: list[tuple[int, str]] = field(default_factory=list)
    read: dict[Path, int] = field(default_factory=dict)


class PodLogs:
    """The logs of a cluster's pods: they go with their pods. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[Key, _Written] = {}
        self._whose: dict[Path, str] = {}
        self._last_ns = 0

    def look(self, pods: Iterable[Object], files: Mapping[str, Path]) -> None:
        """Takes what is new. `files`: by a pod's uid, the file that its program writes into now.

        A file stays that pod's which had it first: a pod that takes another's place has written none of it.
        """
        with self._lock:
            there: dict[Key, _Written] = {}
            for pod in pods:
                key, uid = (pod["metadata"]["namespace"], pod["metadata"]["name"]), pod["metadata"]["uid"]
                known = self._pods.get(key)
                written = there[key] = known if known and known.uid == uid else _Written(uid)
                written.ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
                file = files.get(uid)
                if file is not None and self._whose.setdefault(file, uid) == uid:
                    written.read.setdefault(file, 0)
                for each in written.read:
                    self._take(written, each)
            self._pods = there

    def _take(self, written: _Written, file: Path) -> None:
        try:
            with file.open("rb") as opened:
                opened.seek(written.read[file])
                data = opened.read()
        except FileNotFoundError:
            return
        if not written.ended:
            data = data[: data.rfind(b"\n") + 1]  # the rest of a line is yet to come
        written.read[file] += len(data)
        for line in data.decode("utf-8", "replace").splitlines():
            self._last_ns = max(time.time_ns(), self._last_ns + 1)
            written.lines.append((self._last_ns, line))

    def lines(self, key: Key, start: int = 0) -> tuple[list[tuple[int, str]], bool] | None:
        """A pod's lines from the `start`th on, with the times they were seen at in nanoseconds, and whether that is all
        there will be; None when there is no such pod."""
        with self._lock:
            written = self._pods.get(key)
            return None if written is None else (written.lines[start:], written.ended)


class LogServer:
    """The kubelets' HTTPS on one port of loopback. Its callers show a certificate of the cluster's authority."""

    def __init__(self, logs: PodLogs, *, certificate: Path, key: Path, authority: Path) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(logs))
        # Shaken hands with in its own thread, since a caller may be slow about it.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, name="kubelet-logs", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(logs: PodLogs) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # HTTP/1.0: what is followed ends with the connection.
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            parts, query = url.path.strip("/").split("/"), dict(parse_qsl(url.query))
            if len(parts) != 4 or parts[0] != "containerLogs":
                self._say(501, f"mockgcp's kubelet does not answer GET {url.path}")
            elif unknown := sorted(query.keys() - set(_PARAMETERS)):
                self._say(400, f"mockgcp's kubelet knows no parameter {', '.join(unknown)}")
            elif query.get("previous") == "true":
                self._say(400, f"previous terminated container {parts[3]!r} in pod {parts[2]!r} not found")
            elif logs.lines((parts[1], parts[2])) is None:
                self._say(404, f"pod {parts[2]!r} not found")
            else:
                self._head(200)
                try:
                    for text in _selected(logs, (parts[1], parts[2]), query):
                        self.wfile.write(text.encode())
                except OSError:  # whoever followed has gone
                    pass

        def _say(self, status: int, text: str) -> None:
            self._head(status)
            self.wfile.write(text.encode())

        def _head(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _selected(logs: PodLogs, key: Key, query: Mapping[str, str]) -> Iterator[str]:
    """The lines that are asked for, with those to come when they are to be followed."""
    since = 0.0
    if "sinceTime" in query:
        since = datetime.fromisoformat(query["sinceTime"]).timestamp()
    elif "sinceSeconds" in query:
        since = time.time() - float(query["sinceSeconds"])
    left = int(query["limitBytes"]) if "limitBytes" in query else None
    start, first = 0, True
    while (found := logs.lines(key, start)) is not None:
        new, ended = found
        start += len(new)
        wanted = [each for each in new if each[0] >= since * 1e9]
        if first and "tailLines" in query:
            wanted = wanted[len(wanted) - min(len(wanted), int(query["tailLines"])) :]
        first = False
        for seen_ns, line in wanted:
            text = (f"{_stamp(seen_ns)} " if query.get("timestamps") == "true" else "") + f"{line}\n"
            if left is not None:
                text, left = text[:left], left - len(text)
            yield text
            if left is not None and left <= 0:
                return
        if ended or query.get("follow") != "true":
            return
        time.sleep(_FOLLOW_S)


def _stamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
