"""Where a stack's configuration comes from: the engine that runs the program, or the stack's file alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret

from infra.errors import InputError

SECRET = "[secret]"
"""What stands for an encrypted value where nothing can decrypt it."""


@dataclass(frozen=True)
class Source:
    """A stack's configuration as it was written."""

    stack: str
    """The stack's name."""
    values: Mapping[str, Any]
    """Values by their whole keys, such as holdfast:image. From the engine all are text, objects and lists as JSON."""
    secret: frozenset[str]
    """Keys whose values are encrypted, or have something encrypted in them."""

    @property
    def file(self) -> str:
        """The stack's configuration file, from the project's root."""
        return config_file(self.stack)


def config_file(stack: str) -> str:
    """A stack's configuration file, from the project's root."""
    return f"stacks/Pulumi.{stack}.yaml"


def of_engine() -> Source:
    """The configuration of the stack whose program is running."""
    values = {**get_config_env(), **CONFIG.get()}
    return Source(pulumi.get_stack(), values, frozenset(key for key in values if is_config_secret(key)))


def of_file(stack: str, path: Path) -> Source:
    """The configuration in the file `path` of `stack`, in which SECRET stands for what is encrypted.

    InputError for a file that is not there, or is no configuration.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"{config_file(stack)}: there is no such file ({path}). `pulumi stack init {stack}` begins one"
        raise InputError(message) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{config_file(stack)}: cannot be read: {error}") from None
    config = (document or {}).get("config") or {} if isinstance(document, dict | None) else None
    if not isinstance(config, dict):
        raise InputError(f"{config_file(stack)}: is no stack's configuration: write `config:` and the keys below it")
    return Source(
        stack,
        {str(key): _in_clear(value) for key, value in config.items()},
        frozenset(str(key) for key, value in config.items() if _has_secret(value)),
    )


def _is_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"secure"}


def _has_secret(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return _is_secret(value) or any(_has_secret(part) for part in parts)


def _in_clear(value: Any) -> Any:
    if _is_secret(value):
        return SECRET
    if isinstance(value, dict):
        return {key: _in_clear(part) for key, part in value.items()}
    return [_in_clear(part) for part in value] if isinstance(value, list) else value
