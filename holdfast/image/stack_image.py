"""Which image a stack's file names: `holdfast:image`, changed in place, comments and order kept."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from holdfast.errors import OperatorError

KEY = "holdfast:image"
_LINE = re.compile(
    rf"""^(?P<key>[ ]+(?P<quote>["']?){KEY}(?P=quote):)[ ]+(?P<value>\S+)(?P<rest>[ ]*(?:[ ]\#.*)?)$""", re.M
)


def write(path: Path, reference: str) -> bool:
    """Sets the image in a stack's file; False when it was set already.

    Raises:
        OperatorError: the file does not let itself be changed by a line; names the line to write.
    """
    text = path.read_text(encoding="utf-8")
    before = yaml.safe_load(text) or {}
    config = before.get("config") or {}
    if config.get(KEY) == reference:
        return False
    if KEY in config:
        changed = _LINE.sub(rf"\g<key> {reference}\g<rest>", text)
    else:
        changed = re.sub(r"^config:[ ]*(#.*)?$", rf"\g<0>\n  {KEY}: {reference}", text, count=1, flags=re.M)
    try:
        after = yaml.safe_load(changed)
    except yaml.YAMLError:
        after = None
    if after != {**before, "config": {**config, KEY: reference}}:
        raise OperatorError(f"{path} is not laid out as usual, so it was left alone. Write there: {KEY}: {reference}")
    path.write_text(changed, encoding="utf-8")
    return True
