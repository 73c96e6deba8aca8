"""A pod whose container is a static program of this machine: a folder with the pod's volumes, in which it runs.

The program sees what a kubelet gives it: its arguments, environment, service account's token, ConfigMaps and Secrets,
these kept up to date. It runs as the image's user, in that folder alone (chroot), with the pod's address.
Deliberately not done: limits, liveness probes, network and process namespaces, volumes of other kinds.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mockgcp.planes.k8s.api import Api, Object
from mockgcp.planes.k8s.control_plane import ControlPlane

_USER = 65532
"""The user of images that are made from distroless ones, such as Kueue's."""
_TOKEN_S = 86400
Adjust = Callable[[str, bytes, str], bytes]
"""What a file of a ConfigMap is, by its name, its content and the pod's address."""


class SandboxError(RuntimeError):
    """Why a pod cannot be run this way."""


class Sandbox:
    """One pod's process. `adjust` changes what is in a ConfigMap before the program sees it."""

    def __init__(
        self, plane: ControlPlane, pod: Object, folder: Path, address: str, program: Path, adjust: Adjust
    ) -> None:
        self._plane, self._pod, self._folder, self.address = plane, pod, folder, address
        self._program, self._adjust = program, adjust
        self._container: Object = pod["spec"]["containers"][0]
        self._process: subprocess.Popen[bytes] | None = None
        self.restarts = -1

    def start(self, api: Api) -> None:
        """Lays the pod's files out and starts the program. Raises SandboxError, KubernetesError, OSError."""
        spec = self._pod["spec"]
        if len(spec["containers"]) != 1 or spec.get("initContainers"):
            raise SandboxError("mockgcp runs pods of one container only")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self.sync(api, first=True)
        command = [*self._container["command"], *self._container.get("args", ())]
        self._into(command[0]).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(self._program, self._into(command[0]))
        except OSError:  # another file system
            shutil.copy2(self._program, self._into(command[0]))
        name = self._pod["metadata"]["name"]
        if self._process is not None:  # it has ended, but perhaps not all that it had started
            self._plane.end(self._process)
        self._process = self._plane.spawn(
            name,
            [f"--userspec={_USER}:{_USER}", "--groups=", str(self._folder), *command],
            program=Path(shutil.which("chroot") or "chroot"),
            env=self._environ(),
        )
        self.restarts += 1

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ready(self) -> bool:
        """Whether its readiness probe succeeds, or it runs where it has none."""
        probe = self._container.get("readinessProbe", {}).get("httpGet")
        if probe is None or not self.running():
            return self.running()
        connection = http.client.HTTPConnection(self.address, probe["port"], timeout=2)
        try:
            connection.request("GET", probe["path"])
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """Ends the program, gracefully if it is quick about it."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
            self._plane.end(self._process)
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def sync(self, api: Api, *, first: bool = False) -> None:
        """Brings the pod's ConfigMaps and Secrets up to date."""
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes", ())}
        for mount in self._container.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            if "emptyDir" in volume:
                if first:
                    folder = self._into(mount["mountPath"])
                    folder.mkdir(parents=True, exist_ok=True)
                    os.chown(folder, _USER, _USER)
                continue
            if "projected" in volume and not first:
                continue  # the token outlives a rehearsal
            for name, content in self._files(api, volume):
                if "subPath" not in mount:
                    _write(self._into(f"{mount['mountPath']}/{name}"), content)
                elif mount["subPath"] == name and first:  # a kubelet does not update those either
                    _write(self._into(mount["mountPath"]), content)

    def _files(self, api: Api, volume: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        """A volume's files, certificates after their keys: who waits for a certificate finds the key there."""
        if "projected" in volume:
            for source in volume["projected"]["sources"]:
                yield from self._projected(api, source)
        elif "configMap" in volume:
            yield from self._config_map(api, volume["configMap"]["name"])
        elif "secret" in volume:
            data = self._object(api, "secrets", volume["secret"]["secretName"]).get("data") or {}
            for name in sorted(data, key=lambda name: (name.endswith(".crt"), name)):
                yield name, base64.b64decode(data[name])
        else:
            name = self._pod["metadata"]["name"]
            raise SandboxError(f"mockgcp does not mount volumes such as {volume['name']} of pod {name}")

    def _projected(self, api: Api, source: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        if token := source.get("serviceAccountToken"):
            account = self._pod["spec"]["serviceAccountName"]
            yield token["path"], service_account_token(api, self._namespace, account).encode()
        elif config := source.get("configMap"):
            yield from self._config_map(api, config["name"])
        elif source.get("downwardAPI"):
            for item in source["downwardAPI"]["items"]:
                yield item["path"], self._field(item["fieldRef"]["fieldPath"]).encode()

    def _config_map(self, api: Api, name: str) -> Iterator[tuple[str, bytes]]:
        for key, text in (self._object(api, "configmaps", name).get("data") or {}).items():
            yield key, self._adjust(key, text.encode(), self.address)

    def _object(self, api: Api, plural: str, name: str) -> Object:
        found = api.get(f"/api/v1/namespaces/{self._namespace}/{plural}/{name}")
        if found is None:
            raise SandboxError(f'{plural} "{name}" not found')
        return found

    def _environ(self) -> dict[str, str]:
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self._plane.port)}
        for each in self._container.get("env", ()):
            by_field = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            env[each["name"]] = self._field(by_field) if by_field else each.get("value", "")
        return env

    def _field(self, path: str) -> str:
        metadata = self._pod["metadata"]
        fields: dict[str, str] = {f"metadata.{name}": metadata[name] for name in ("name", "namespace", "uid")}
        fields["status.podIP"] = self.address
        if path not in fields:
            raise SandboxError(f"mockgcp does not know the pod's field {path}")
        return fields[path]

    @property
    def _namespace(self) -> str:
        namespace: str = self._pod["metadata"]["namespace"]
        return namespace

    def _into(self, path: str) -> Path:
        """Where a path of the pod's is. Raises SandboxError for one that leads out of its folder."""
        if ".." in Path(path).parts:
            raise SandboxError(f"{path}: a path in a pod has no `..`")
        return self._folder / path.lstrip("/")


def service_account_token(api: Api, namespace: str, account: str) -> str:
    """A token of a service account, for a day. Raises KubernetesError."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_S},
    }
    where = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token: str = api.call("POST", where, request)["status"]["token"]
    return token


def _write(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all, where it has changed."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.new")
    half.write_bytes(content)
    half.chmod(0o644)
    half.rename(path)
