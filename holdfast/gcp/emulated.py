"""The seam on an emulated cloud in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.gcp.api import CloudError
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.operations import Operation


@dataclass(frozen=True)
class EmulatedApi:
    """Calls an emulated cloud as one principal."""

    cloud: Cloud
    principal: str = DEFAULT_OWNER

    def call(
        self, method_id: str, params: Mapping[str, Any] | None = None, body: Any = None, media: bytes | None = None
    ) -> dict[str, Any]:
        try:
            answer = self.cloud.call(method_id, params, body, self.principal, media)
        except ApiError as error:
            raise CloudError(
                error.status, error.message, http_status=error.http_status, reason=error.reason, method=method_id
            ) from error
        return answer.to_dict() if isinstance(answer, Operation) else answer
