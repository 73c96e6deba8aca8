"""The emulated cloud over HTTP, for any client of Google's APIs: only routing over the discovery documents.

A path is looked up below an API's own name (`/run/v2/projects/...`), else among all APIs (`/v2/projects/...`):
on one address some paths are of two APIs, and are then refused. The bearer token is the principal
(`user:owner@example.com`): whoever can reach the loopback address is trusted, as with any emulator.
Deliberately not done: batches, resumable uploads, partial responses (`fields`; the whole answer comes).
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from functools import cache
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mockgcp import schemas
from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError, invalid, not_found
from mockgcp.operations import Operation
from mockgcp.schemas import Method
from mockgcp.services import storage

_VERBS = ["DELETE", "GET", "PATCH", "POST", "PUT"]
_STOP_S = 5
# APIs older than google.rpc.Status repeat their errors in a form of their own, with these reasons.
_LEGACY = ("compute", "storage")
_REASONS = {
    "INVALID_ARGUMENT": "invalid",
    "FAILED_PRECONDITION": "failedPrecondition",
    "UNAUTHENTICATED": "authError",
    "PERMISSION_DENIED": "forbidden",
    "NOT_FOUND": "notFound",
    "ALREADY_EXISTS": "conflict",
    "RESOURCE_EXHAUSTED": "rateLimitExceeded",
}

# -- routes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A method, and the parameters that its path holds."""

    method: Method
    params: Mapping[str, str]


@dataclass(frozen=True)
class _Template:
    """A method's path as a pattern over the raw path; `literal`: how many of its characters are no parameter's."""

    method: Method
    pattern: re.Pattern[str]
    literal: int

    def match(self, path: str) -> Found | None:
        match = self.pattern.fullmatch(path)
        if match is None:
            return None
        params = {_name(group): urllib.parse.unquote(value) for group, value in match.groupdict().items()}
        for name, value in params.items():
            shape = self.method.params.get(name, {}).get("pattern")
            if shape and not re.search(shape, value):
                return None
        return Found(self.method, params)


# A group's name has no dots, a parameter's may.
_DOT = "__dot__"


def _name(group: str) -> str:
    return group.replace(_DOT, ".")


def _template(method: Method) -> _Template:
    pieces, literal = [], 0
    for piece in re.split(r"(\{\+?[^}]+\})", method.path):
        if piece.startswith("{"):
            many = piece.startswith("{+")
            group = piece.strip("{+}").replace(".", _DOT)
            pieces.append(f"(?P<{group}>{'.+' if many else '[^/]+'})")
        else:
            pieces.append(re.escape(piece))
            literal += len(piece)
    return _Template(method, re.compile("".join(pieces)), literal)


@cache
def _templates(api: str, verb: str) -> tuple[_Template, ...]:
    """The templates of an API's methods, those first that leave least to parameters."""
    methods = (method for method in schemas.methods(api).values() if method.http_method == verb)
    return tuple(sorted(map(_template, methods), key=lambda each: -each.literal))


def _in_api(api: str, verb: str, path: str) -> Found | None:
    return next((found for template in _templates(api, verb) if (found := template.match(path))), None)


def route(verb: str, path: str) -> Found:
    """The method of a request, by its raw path (still percent-encoded).

    Raises:
        ApiError: NOT_FOUND for a path of no API, INVALID_ARGUMENT for one of several.
    """
    path = path.lstrip("/")
    api, _, below = path.partition("/")
    if api in schemas.VERSIONS and (found := _in_api(api, verb, below)):
        return found
    candidates = [found for api in _public() if (found := _in_api(api, verb, path))]
    if not candidates:
        raise not_found(f"The requested URL {verb} /{path} was not found: it is of no API that mockgcp knows.")
    if len(candidates) > 1:
        apis = [found.method.api for found in candidates]
        raise invalid(f"{verb} /{path} could be of {', '.join(apis)}: send it to /{apis[0]}/{path}, or so.")
    return candidates[0]


def _public() -> list[str]:
    # The planes' own methods are not Google's: only by their name.
    return [api for api in schemas.VERSIONS if api != "mockgcp"]


# -- requests ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """A request as it came, without the server around it."""

    verb: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    media_type: str = "application/json; charset=UTF-8"


def handle(cloud: Cloud, sent: Sent, anonymous: str | None = None) -> Answer:
    """Answers one request. `anonymous`: the principal of one without credentials; None refuses it."""
    api = ""
    try:
        path = sent.path
        if "batch" in path.split("/")[1:3]:
            raise ApiError("UNIMPLEMENTED", "mockgcp takes no batches: send the calls one by one")
        upload = re.match(r"(/[a-z]+)?/upload(?=/)", path)
        if upload:
            path = (upload[1] or "") + path[upload.end() :]
        found = route(sent.verb, path)
        api = found.method.api
        params = {**_query(found.method, sent.query), **found.params}
        body, media = _upload(sent, params) if upload else (_json(sent.body), None)
        principal = _principal(sent.headers.get("authorization", ""), anonymous)
        download = params.get("alt") == "media" and found.method.id == "storage.objects.get"
        if download:
            del params["alt"]
        result = cloud.call(found.method.id, params, body, principal, media)
        if download:
            return _bytes(cloud, params)
    except ApiError as error:
        return _refusal(error, api)
    answer = result.to_dict() if isinstance(result, Operation) else result
    if found.method.response is None:
        return Answer(204, b"")
    return Answer(200, json.dumps(answer).encode())


def _query(method: Method, query: str) -> dict[str, Any]:
    """The query's parameters by the names of the discovery document, which the API also takes in snake_case."""
    known = {**method.global_params, **method.params}
    params: dict[str, Any] = {}
    for name, values in urllib.parse.parse_qs(query, keep_blank_values=True).items():
        camel = re.sub(r"_([a-z])", lambda match: match[1].upper(), name)
        key = name if name in known or camel not in known else camel
        params[key] = values if known.get(key, {}).get("repeated") else values[-1]
    return params


def _json(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise invalid(f"Invalid JSON payload received. {error}") from error


def _upload(sent: Sent, params: dict[str, Any]) -> tuple[Any, bytes]:
    """The metadata and the bytes of an upload."""
    kind = params.pop("uploadType", "")
    if kind == "media":
        return None, sent.body
    if kind != "multipart":
        raise ApiError("UNIMPLEMENTED", f"mockgcp takes no upload of uploadType {kind!r}: send media or multipart")
    header = Message()
    header["content-type"] = sent.headers.get("content-type", "")
    boundary = header.get_param("boundary")
    parts = sent.body.split(f"--{boundary}".encode()) if boundary else []
    if len(parts) != 4:  # before the first, two parts, after the last
        raise invalid("A multipart upload has two parts: the metadata as JSON, and the object's bytes.")
    metadata, media = (_content(part) for part in parts[1:3])
    return _json(metadata), media


def _content(part: bytes) -> bytes:
    """What follows a part's headers, without the end of line before the next boundary."""
    head = re.search(rb"(\r?\n)\r?\n", part)
    if head is None:
        raise invalid("A part of a multipart upload has no headers.")
    return part[head.end() :].removesuffix(head[1])


_PRINCIPAL = re.compile(r"(user|serviceAccount|group):[^\s@]+@\S+")


def _principal(authorization: str, anonymous: str | None) -> str | None:
    if not authorization:
        return anonymous
    kind, _, token = authorization.partition(" ")
    if kind.lower() != "bearer" or not _PRINCIPAL.fullmatch(token):
        message = "Request had invalid authentication credentials: mockgcp's tokens are principals, user:NAME@DOMAIN."
        raise ApiError("UNAUTHENTICATED", message)
    return token


def _bytes(cloud: Cloud, params: Mapping[str, Any]) -> Answer:
    """An object's content. The seam carries JSON, so it is read from the bucket's folder once the seam allowed it."""
    path = storage.folder(cloud.state_dir, params["bucket"]) / params["object"]
    return Answer(200, path.read_bytes(), "application/octet-stream")


def _refusal(error: ApiError, api: str) -> Answer:
    """Google's JSON form of an error."""
    shown: dict[str, Any] = {"code": error.http_status, "message": error.message, "status": error.status}
    details: list[dict[str, Any]] = []
    if error.reason:
        info = "type.googleapis.com/google.rpc.ErrorInfo"
        details.append({"@type": info, "reason": error.reason, "domain": "googleapis.com"})
    if error.violations:
        fields = [{"field": field, "description": why} for field, why in error.violations]
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields})
    if details:
        shown["details"] = details
    if api in _LEGACY:
        reason = error.reason or _REASONS.get(error.status, "backendError")
        shown["errors"] = [{"message": error.message, "domain": "global", "reason": reason}]
    return Answer(error.http_status, json.dumps({"error": shown}).encode())


# -- server --------------------------------------------------------------------------------------------------------


def app(cloud: Cloud, anonymous: str | None = None) -> Starlette:
    """The emulated cloud as an ASGI application; `anonymous` as in `handle`."""

    async def answer(request: Request) -> Response:
        sent = Sent(
            verb=request.method,
            path=request.scope["raw_path"].decode("ascii"),
            query=request.url.query,
            headers=request.headers,
            body=await request.body(),
        )
        given = await run_in_threadpool(handle, cloud, sent, anonymous)
        return Response(given.body, given.status, media_type=given.media_type)

    return Starlette(routes=[Route("/{path:path}", answer, methods=_VERBS)])


@contextlib.contextmanager
def serve(cloud: Cloud, *, port: int = 0, anonymous: str | None = None) -> Iterator[int]:
    """Serves the cloud on the loopback address while the context lasts. Yields the port (0: a free one).

    Raises:
        OSError: the port is taken.
    """
    with socket.create_server(("127.0.0.1", port)) as listener:
        config = uvicorn.Config(
            app(cloud, anonymous),
            lifespan="off",
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=_STOP_S,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="mockgcp-rest", daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(2 * _STOP_S)
