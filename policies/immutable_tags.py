"""A repository in which a tag can come to mean another image."""

from policies.props import UNKNOWN, is_off, mapping
from policies.rule import Props, Rule

REPOSITORY = "gcp:artifactregistry/repository:Repository"
_SOURCE = "https://docs.cloud.google.com/artifact-registry/docs/docker/names#versions"


def check(props: Props) -> list[str]:
    """One message if a Docker repository lets tags move. Remote and virtual ones hold no images of our own."""
    config = props.get("dockerConfig")
    if str(props.get("format")).upper() != "DOCKER" or props.get("mode") not in (None, "STANDARD_REPOSITORY"):
        return []
    if config == UNKNOWN or not is_off(mapping(config).get("immutableTags")):
        return []
    return [
        "dockerConfig.immutableTags is off: an image's tag is its source's hash, and one that moved would make another "
        f"program pass for it ({_SOURCE}). Set it to true"
    ]


RULE = Rule(
    name="immutable-tags",
    severity="mandatory",
    summary="A Docker repository's tags cannot move.",
    source=_SOURCE,
    way_out="Set dockerConfig.immutableTags to true.",
    checks={REPOSITORY: check},
)
