"""Every entry of the provider's tables names things that exist."""

from collections.abc import Mapping

import pytest

from mockgcp.frontends.pulumi.resource import ResourceType
from mockgcp.frontends.pulumi.resources import RESOURCES
from mockgcp.frontends.pulumi.schema import Kind, ListOf, MapOf, Object


def find(fields: Mapping[str, Kind], path: str) -> Kind | None:
    """What a dotted path leads to, through lists; None where it leads nowhere."""
    head, _, rest = path.partition(".")
    kind = fields.get(head)
    while isinstance(kind, (ListOf, MapOf)):
        kind = kind.item
    if not rest or kind is None:
        return kind
    return find(kind.fields, rest) if isinstance(kind, Object) else None


@pytest.mark.parametrize("kind", RESOURCES.values(), ids=RESOURCES)
def test_every_path_of_the_tables_is_the_sdks(kind: ResourceType) -> None:
    inputs, table = kind.inputs.fields, kind.table
    paths = {
        *kind.replace_on,
        *kind.in_place,
        *kind.computed,
        *kind.defaults,
        *table.local,
        *table.sent_when_zero,
        *table.spelling,
    }
    assert {path for path in paths if find(inputs, path) is None} == set()
    assert {path for path in table.names if (find(inputs, path) or find(kind.outputs, path)) is None} == set()
    assert kind.auto_name is None or kind.auto_name.field in inputs


@pytest.mark.parametrize("kind", RESOURCES.values(), ids=RESOURCES)
def test_tokens_are_the_sdks_own(kind: ResourceType) -> None:
    assert vars(kind.resource)["pulumi_type"] == kind.token


def test_the_types_of_scenario_a_are_there() -> None:
    needed = {
        "gcp:artifactregistry/repository:Repository",
        "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
        "gcp:cloudrunv2/job:Job",
        "gcp:compute/network:Network",
        "gcp:compute/router:Router",
        "gcp:compute/routerNat:RouterNat",
        "gcp:compute/subnetwork:Subnetwork",
        "gcp:projects/iAMMember:IAMMember",
        "gcp:projects/service:Service",
        "gcp:serviceaccount/account:Account",
        "gcp:serviceaccount/iAMMember:IAMMember",
        "gcp:storage/bucket:Bucket",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
    }
    assert needed - RESOURCES.keys() == set()
