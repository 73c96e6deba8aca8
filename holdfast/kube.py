"""The Kubernetes API as the operator's commands call it: objects are dicts, by their paths, over the official client.

The client brings credentials (also those of a kubeconfig's plugin), certificates and proxies; its generated classes
know neither Kueue nor Ray. It is imported, and the cluster looked for, at the first call.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from holdfast.errors import OperatorError
from holdfast.gcp import ENDPOINT
from holdfast.gcp.api import CloudError

Object = dict[str, Any]
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
MANAGER = "holdfast"
"""Whose fields those are that the commands apply."""

_TIMEOUT_S = 30.0
# Google's word for what Kubernetes answers.
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
# By the beginning of its path, who serves an API that a cluster lacks.
_SERVED_BY = {
    "/apis/ray.io/": "the Ray operator is off: `pulumi up` of the stack sets the cluster's add-on rayOperatorConfig",
    "/apis/kueue.x-k8s.io/": "Kueue is not installed: `pulumi up` of the stack installs its chart",
    "/apis/visibility.kueue.x-k8s.io/": "Kueue's visibility API does not answer: look at its pod in kueue-system",
    "/apis/autoscaling.x-k8s.io/": "the cluster knows no ProvisioningRequests: GKE has them from 1.28 on",
}


class Kube:
    """One cluster. `find` gives its kubeconfig, and is asked once, at the first call. Thread-safe after it."""

    def __init__(self, find: Callable[[], Mapping[str, Any]]) -> None:
        self._find = find

    def get(self, path: str) -> Object | None:
        """The object of that path; None where there is none. CloudError: any other refusal, or no such API."""
        try:
            return self.call("GET", path)
        except CloudError as error:
            if error.status == "NOT_FOUND" and error.reason == "NotFound":
                return None
            raise

    def list(self, path: str, selector: str = "") -> list[Object]:
        """The objects of a collection. CloudError: a refusal, or no such API."""
        items: list[Object] = self.call("GET", path, {"labelSelector": selector} if selector else {}).get("items", [])
        return items

    def create(self, collection: str, thing: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Creates an object; a dry run asks all that has a say in it. CloudError."""
        query = {"fieldManager": MANAGER, **_dry(dry_run)}
        return self.call("POST", collection, query, thing)

    def apply(self, path: str, thing: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Server-side apply, as the one who owns these fields. CloudError."""
        return self.call("PATCH", path, {"fieldManager": MANAGER, "force": "true", **_dry(dry_run)}, thing, APPLY)

    def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        """A merge patch. CloudError."""
        return self.call("PATCH", path, {"fieldManager": MANAGER}, change, MERGE)

    def delete(self, path: str, *, owns: bool = True) -> None:
        """Deletes an object after all that it owns; one that is gone is fine. CloudError.

        One that owns nothing is gone at once; others when the garbage collector has seen to it.
        """
        policy = "Foreground" if owns else "Background"
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        try:
            self.call("DELETE", path, {}, options)
        except CloudError as error:
            if error.status != "NOT_FOUND":
                raise

    def call(
        self, method: str, path: str, query: Mapping[str, Any] = {}, body: Any = None, kind: str = "application/json"
    ) -> Object:
        """One call, answered in JSON. CloudError."""
        answer: Object = json.loads(self.raw(method, path, query, body, kind))
        return answer

    def text(self, path: str, query: Mapping[str, Any]) -> str:
        """What a path answers that is no object: a pod's log. CloudError."""
        return self.raw("GET", path, query).decode("utf-8", "replace")

    def raw(
        self, method: str, path: str, query: Mapping[str, Any] = {}, body: Any = None, kind: str = "application/json"
    ) -> bytes:
        """One call.

        Raises:
            CloudError: it was refused, or nothing answered. `reason` is Kubernetes's; empty when the API is not there.
        """
        import urllib3
        from kubernetes.client.exceptions import ApiException

        client, what = self._client, f"{method} {path}"
        # Each time, since the client renews a token that has run out here.
        token = client.configuration.auth_settings().get("BearerToken", {}).get("value")
        headers = {"Accept": "application/json, */*", "Content-Type": kind}
        headers |= {"Authorization": token} if token else {}
        url = f"{client.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            response = client.rest_client.request(method, url, headers=headers, body=body, _request_timeout=_TIMEOUT_S)
            data: bytes = response.read()
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            said = getattr(error, "reason", None) or error
            message = f"the cluster at {client.configuration.host} does not answer: {said}"
            raise CloudError("UNAVAILABLE", message, method=what) from error
        if response.status >= 400:
            raise _refusal(response.status, data, what, path)
        return data

    @cached_property
    def _client(self) -> Any:
        import kubernetes

        found = self._find()
        for user in found["users"]:
            _require(user["user"].get("exec"))
        configuration = kubernetes.client.Configuration()
        with _Caught() as caught:
            client = kubernetes.config.new_client_from_config_dict(
                found, persist_config=False, client_configuration=configuration
            )
        if caught.said:  # the client goes on without credentials
            raise CloudError("UNAUTHENTICATED", f"{'; '.join(caught.said)}. {_way_in(_LOGIN)}")
        return client


_LOGIN = "Log in with `gcloud auth login` as somebody who may use the cluster"


def _way_in(usual: str) -> str:
    """How to get a cluster's credentials: `usual`, but for an emulated one, whose token its own plugin alone knows."""
    return "Put first on PATH what `holdfast emulate --kubernetes` prints" if os.environ.get(ENDPOINT) else usual


def _require(plugin: Mapping[str, Any] | None) -> None:
    """Refuses a kubeconfig whose plugin cannot be run."""
    if plugin is not None and shutil.which(plugin["command"]) is None:
        hint = _way_in(plugin.get("installHint", "install it"))
        raise OperatorError(f"{plugin['command']}, which gets a token for the cluster, is not on PATH. {hint}")


class _Caught(logging.Handler):
    """Errors that the client logs instead of raising them, while it is the context."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())

    def __enter__(self) -> _Caught:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *raised: object) -> None:
        logging.getLogger().removeHandler(self)


def _dry(dry_run: bool) -> Mapping[str, str]:
    return {"dryRun": "All"} if dry_run else {}


_NO_PATH = "404 page not found"  # the API server's, of an API that it does not have


def _refusal(code: int, data: bytes, what: str, path: str) -> CloudError:
    try:
        said = json.loads(data)
        reason, message = str(said["reason"]), str(said["message"])
        named = bool(said.get("details", {}).get("name"))
    except (ValueError, KeyError, TypeError):
        reason, message, named = "", data.decode("utf-8", "replace").strip(), False
    status = _STATUS.get(code, "INTERNAL" if code >= 500 else "UNKNOWN")
    if code == 409 and reason == "Conflict":
        status = "ABORTED"
    if code == 401:
        message = f"{message or 'Unauthorized'}. {_way_in(_LOGIN)}"
    missing = next((who for root, who in _SERVED_BY.items() if path.startswith(root)), None)
    if missing is not None and (code == 503 or (code == 404 and not named)):
        reason, message = "", missing if message == _NO_PATH else f"{message}: {missing}"
    return CloudError(status, message, http_status=code, reason=reason, method=what)
