"""A small client of the Kubernetes API: objects are dicts, as the API answers them. One for each thread."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import yaml

Object = dict[str, Any]
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_TIMEOUT_S = 30.0


class KubernetesError(RuntimeError):
    """What the API server refused, in its own words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})")
        self.status, self.reason, self.message = status, reason, message


class Api:
    """Calls one API server with a token."""

    def __init__(self, port: int, ca: Path, token: str, *, host: str = "127.0.0.1") -> None:
        self._connection = http.client.HTTPSConnection(
            host, port, context=ssl.create_default_context(cafile=str(ca)), timeout=_TIMEOUT_S
        )
        self._token = token
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def close(self) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Object:
        """One request. Raises KubernetesError, or OSError when nobody answers."""
        status, data = self.raw(method, path, body, kind)
        answer: Object = json.loads(data) if data[:1] == b"{" else {"message": data.decode("utf-8", "replace")}
        if status >= 400:
            raise KubernetesError(status, answer.get("reason", ""), answer.get("message", ""))
        return answer

    def raw(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, bytes]:
        """One request: the status and what was answered. Raises OSError."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": "application/json"}
        sent = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, sent, headers)
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request opens it again
            raise OSError(f"{method} {path}: {error!r}") from error

    def list(self, path: str, *, selector: str = "") -> list[Object]:
        """The objects of a collection, as the server's own cache has them."""
        query = {"resourceVersion": "0", **({"labelSelector": selector} if selector else {})}
        items: list[Object] = self.call("GET", f"{path}?{urlencode(query)}").get("items", [])
        return items

    def get(self, path: str) -> Object | None:
        """The object of that path; None when there is none."""
        try:
            return self.call("GET", path)
        except KubernetesError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def create(self, thing: Mapping[str, Any]) -> Object:
        """Creates an object. For large ones it takes the server far less than an apply."""
        return self.call("POST", self.path(thing).rpartition("/")[0], thing)

    def apply(self, thing: Mapping[str, Any], *, manager: str = "mockgcp", dry_run: bool = False) -> Object:
        """Server-side apply. Raises KubernetesError: what admission refuses among it."""
        query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        return self.call("PATCH", f"{self.path(thing)}?{urlencode(query)}", thing, _APPLY)

    def patch_status(self, path: str, status: Mapping[str, Any], kind: str = MERGE) -> Object:
        return self.call("PATCH", f"{path}/status", {"status": status}, kind)

    def delete(self, path: str, *, grace_s: int | None = None) -> None:
        """Deletes an object; one that is gone is fine."""
        options: Object = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        try:
            self.call("DELETE", path, options)
        except KubernetesError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def path(self, thing: Mapping[str, Any]) -> str:
        """The path of an object, by what the API server says of its kind. Raises KubernetesError."""
        version, kind, metadata = thing["apiVersion"], thing["kind"], thing["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plurals:
            for found in self.call("GET", root)["resources"]:
                if "/" not in found["name"]:
                    self._plurals[version, found["kind"]] = found["name"], found["namespaced"]
        if (version, kind) not in self._plurals:
            raise KubernetesError(404, "NotFound", f"the server has no kind {kind} in {version}")
        plural, namespaced = self._plurals[version, kind]
        space = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        return f"{root}{space}/{plural}/{quote(metadata['name'])}"


def path(thing: Mapping[str, Any], root: str, plural: str) -> str:
    """The path of a namespaced object that was listed without its kind."""
    metadata = thing["metadata"]
    return f"{root}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"


def condition(thing: Mapping[str, Any], kind: str) -> Object:
    """An object's condition of that type; empty when it has none."""
    found = (each for each in thing.get("status", {}).get("conditions", ()) if each["type"] == kind)
    return next(found, {})


def holds(thing: Mapping[str, Any], kind: str) -> bool:
    return condition(thing, kind).get("status") == "True"


def documents(paths: Iterable[Path]) -> list[Object]:
    """The objects in YAML files, in order."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for path in paths for each in yaml.load_all(path.read_bytes(), loader) if each]
