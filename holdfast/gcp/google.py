"""The seam on Google Cloud itself, by google-api-python-client and its static discovery documents.

`HOLDFAST_API_ENDPOINT` names an emulated cloud on this machine (`python -m mockgcp` prints it): then every call goes
there, without credentials. Reads are tried again after a pause; a write only when the API says that it was not done.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import random
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import google.auth
import google_auth_httplib2  # type: ignore[import-untyped]
import httplib2  # type: ignore[import-untyped]
from google.api_core import universe as universes
from google.api_core.client_options import ClientOptions
from google.auth import credentials as auth
from google.auth import exceptions
from googleapiclient import discovery, errors  # type: ignore[import-untyped]
from googleapiclient.http import MediaInMemoryUpload  # type: ignore[import-untyped]

from holdfast.errors import OperatorError
from holdfast.gcp import ENDPOINT
from holdfast.gcp.api import Api, CloudError
from infra import catalog
from mockgcp import schemas
from mockgcp.state import DEFAULT_OWNER

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email")
_TIMEOUT_S = 60.0
_TRIES = 4
_LOGIN = "run `gcloud auth application-default login`, or name a credential file in GOOGLE_APPLICATION_CREDENTIALS"
# Reads that have a body, and so are a POST.
_POSTED_READS = ("list", "getIamPolicy", "testIamPermissions")
# What an API that answers no google.rpc.Code means by an HTTP status.
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
# https://docs.cloud.google.com/vertex-ai/docs/reference/rest#service-endpoint
_REGIONAL = ("aiplatform",)
_LOCATION = re.compile(r"/locations/([a-z0-9-]+)")
# Older APIs' names of a reason.
_REASON = {"accessNotConfigured": "SERVICE_DISABLED"}


class GoogleApi:
    """Google Cloud's APIs in one universe. Thread-safe.

    Args:
        project: whose quota the calls of a user's own credentials count against; None: the credentials' own.
        credentials: application default credentials by default, found at the first call.
        endpoint: an emulated cloud's address; no credentials then, but `token`, which names the principal.
        pause: waits, for so many seconds, before another try.
    """

    def __init__(
        self,
        project: str | None,
        universe: catalog.Universe,
        credentials: auth.Credentials | None = None,
        endpoint: str | None = None,
        *,
        token: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._project = project
        self._universe = universe
        self._credentials = credentials
        self._endpoint = endpoint.rstrip("/") if endpoint else None
        self._token = token
        self._pause = pause
        self._lock = threading.Lock()
        self._services: dict[tuple[str, str, str], Any] = {}
        self._of_thread = threading.local()

    def call(
        self, method_id: str, params: Mapping[str, Any] | None = None, body: Any = None, media: bytes | None = None
    ) -> dict[str, Any]:
        """Makes one call. As `Api.call`; without credentials the error's status is UNAUTHENTICATED."""
        method = schemas.method(method_id)
        if method is None or method.api == "mockgcp":
            raise CloudError("UNIMPLEMENTED", "no discovery document has it", method=method_id)
        read = method.http_method == "GET" or method_id.rpartition(".")[2] in _POSTED_READS
        for attempt in range(1, _TRIES + 1):
            try:
                return self._once(method, params or {}, body, media)
            except CloudError as error:
                again = error.status in _PASSING if read else error.http_status == _NOT_DONE
                if not again or attempt == _TRIES:
                    raise
                self._pause(2 ** (attempt - 1) * (0.5 + random.random() / 2))
        raise AssertionError("unreachable: the last try returns or raises")

    def principal(self) -> str | None:
        """The caller as IAM writes it (`user:...`, `serviceAccount:...`); None when it cannot be told.

        Raises:
            CloudError: no credentials, or they do not work any more.
        """
        if self._endpoint:
            return self._token or None
        credentials = self._found()
        with _translated("principal"):
            transport = google_auth_httplib2.Request(httplib2.Http(timeout=_TIMEOUT_S))
            if not credentials.valid:
                credentials.refresh(transport)  # type: ignore[no-untyped-call]
            if email := getattr(credentials, "service_account_email", None):
                return f"serviceAccount:{email}"
            return f"user:{email}" if (email := self._email(credentials, transport)) else None

    def _email(self, credentials: auth.Credentials, transport: Callable[..., Any]) -> str | None:
        """A user's e-mail: as the credentials say, else as the token's issuer does, if its scopes let it."""
        if account := getattr(credentials, "account", ""):
            return str(account)
        answer = transport(
            url=f"https://oauth2.{self._universe.api_domain}/tokeninfo",
            method="POST",
            headers={"content-type": "application/x-www-form-urlencoded"},
            body=urllib.parse.urlencode({"access_token": credentials.token}).encode(),
        )
        return json.loads(answer.data).get("email") if answer.status == 200 else None

    def _once(
        self, method: schemas.Method, params: Mapping[str, Any], body: Any, media: bytes | None
    ) -> dict[str, Any]:
        with _translated(method.id):
            resource = self._service(method.api, method.version, _region(method.api, params))
            *path, verb = method.id.split(".")[1:]
            for name in path:
                resource = getattr(resource, name)()
            arguments = {discovery.key2param(name): value for name, value in params.items()}
            if method.request is not None:
                arguments["body"] = {} if body is None else body
            if media is not None:
                arguments["media_body"] = MediaInMemoryUpload(media, "application/octet-stream", resumable=False)
            try:
                request = getattr(resource, discovery.fix_method_name(verb))(**arguments)
            except TypeError as error:  # the client's word for an unknown, missing or malformed parameter
                raise CloudError("INVALID_ARGUMENT", str(error), method=method.id) from error
            if self._endpoint and self._token:
                request.headers["authorization"] = f"Bearer {self._token}"
            answer = request.execute(http=self._http())
        return answer if isinstance(answer, dict) else {}  # a delete of an older API answers nothing

    def _service(self, api: str, version: str, region: str = "") -> Any:
        with self._lock:
            if (api, version, region) not in self._services:
                document = schemas.document(api, version)
                # By the root rather than by the client's options, since uploads go by the root alone.
                domain = self._universe.api_domain
                root = document["rootUrl"].replace(catalog.universe().api_domain, domain)
                root = root.replace("://", f"://{region}-") if region else root
                document["rootUrl"] = f"{self._endpoint}/{api}/" if self._endpoint else root
                options = ClientOptions(universe_domain=None if self._endpoint else domain)
                built = discovery.build_from_document(document, http=self._http(), client_options=options)
                self._services[api, version, region] = built
            return self._services[api, version, region]

    def _http(self) -> Any:
        """A connection of this thread: they cannot be shared."""
        if not hasattr(self._of_thread, "http"):
            if self._endpoint:
                self._of_thread.http = httplib2.Http(timeout=_TIMEOUT_S, proxy_info=None)
            else:
                http = httplib2.Http(timeout=_TIMEOUT_S)
                self._of_thread.http = google_auth_httplib2.AuthorizedHttp(self._found(), http=http)
        return self._of_thread.http

    def _found(self) -> auth.Credentials:
        """The credentials that were given, or the application default ones."""
        if self._credentials is None:
            with _translated("credentials"):
                found, _ = google.auth.default(scopes=_SCOPES)
            # A user's own need a project that pays for the call; a service account is in one.
            own = getattr(found, "service_account_email", None) is None and not found.quota_project_id
            if own and self._project and isinstance(found, auth.CredentialsWithQuotaProject):
                found = found.with_quota_project(self._project)  # type: ignore[no-untyped-call]
            self._credentials = found
        return self._credentials


def _region(api: str, params: Mapping[str, Any]) -> str:
    """The region that a call goes to, where an API has an address in each and none of all (aiplatform)."""
    found = _LOCATION.search(str(params.get("name") or params.get("parent") or "")) if api in _REGIONAL else None
    return found[1] if found else ""


# Worth another try of a read; and the one answer to a write that says it was not done.
_PASSING = ("RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN")
_NOT_DONE = 429


@contextlib.contextmanager
def _translated(method: str) -> Iterator[None]:
    """Whatever goes wrong with a call, as a CloudError."""
    try:
        yield
    except errors.HttpError as error:
        raise _refusal(error, method) from error
    except universes.UniverseMismatchError as error:
        raise CloudError("UNAUTHENTICATED", f"{error}; set gcp:universeDomain, or {_LOGIN}", method=method) from error
    except exceptions.TransportError as error:
        raise CloudError("UNAVAILABLE", str(error), method=method) from error
    except exceptions.GoogleAuthError as error:
        said = str(error.args[0]) if error.args else type(error).__name__  # the other arguments are what caused it
        message = f"{said.removesuffix('.')}. To get credentials, {_LOGIN}"
        raise CloudError("UNAUTHENTICATED", message, method=method) from error
    except (OSError, httplib2.HttpLib2Error) as error:
        raise CloudError("UNAVAILABLE", f"nothing answered: {error}", method=method) from error


def _refusal(error: errors.HttpError, method: str) -> CloudError:
    code = int(error.resp.status)
    try:
        said = json.loads(error.content)["error"]
        message = said["message"]
    except (ValueError, KeyError, TypeError):  # a proxy's page, say
        said, message = {}, error.reason or f"HTTP {code}"
    details = [each for each in said.get("details", ()) if each.get("@type", "").endswith("/google.rpc.ErrorInfo")]
    reasons = [each.get("reason", "") for each in (*details, *said.get("errors", ()))]
    reason = next(filter(None, reasons), "")
    status = said.get("status") or _STATUS.get(code) or ("INTERNAL" if code >= 500 else "UNKNOWN")
    return CloudError(status, message, http_status=code, reason=_REASON.get(reason, reason), method=method)


def connect(project: str | None, universe: catalog.Universe) -> Api:
    """Google Cloud, or the emulated cloud that HOLDFAST_API_ENDPOINT names.

    Raises:
        OperatorError: that is no address on this machine; nothing but an emulator is called without credentials.
    """
    endpoint = os.environ.get(ENDPOINT)
    if not endpoint:
        return GoogleApi(project, universe)
    url = urllib.parse.urlsplit(endpoint)
    if url.scheme != "http" or not _loopback(url.hostname or ""):
        raise OperatorError(
            f"{ENDPOINT} is {endpoint!r}; it is for an emulated cloud on this machine, http://127.0.0.1:PORT, as "
            "`python -m mockgcp` prints it. Unset it to work on Google Cloud"
        )
    return GoogleApi(project, universe, endpoint=endpoint, token=DEFAULT_OWNER)


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
