"""One small table a resource type; `RESOURCES` is all the provider front end knows, by token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from mockgcp.frontends.pulumi.resource import ResourceType

_MODULES = (
    *("artifactregistry", "billing", "cloudrunv2", "compute", "container", "filestore", "logging"),
    *("monitoring", "projects", "serviceaccount", "storage", "vertex"),
)


@cache
def _types(module: str) -> Mapping[str, ResourceType]:
    found = vars(import_module(f"{__name__}.{module}")).values()
    return {each.token: each for each in found if isinstance(each, ResourceType)}


class _Resources(Mapping[str, ResourceType]):
    """Each module is loaded when the first type of it is asked for: the SDK's compute alone takes a second, 60 MiB."""

    def __getitem__(self, token: str) -> ResourceType:
        module = token.removeprefix("gcp:").partition("/")[0]
        if module not in _MODULES:
            raise KeyError(token)
        return _types(module)[token]

    def __iter__(self) -> Iterator[str]:
        return (token for module in _MODULES for token in _types(module))

    def __len__(self) -> int:
        return sum(len(_types(module)) for module in _MODULES)


RESOURCES: Mapping[str, ResourceType] = _Resources()
