"""The Logging query language as a predicate over entries, as far as alerts, metrics and an operator's questions go.

Source: https://docs.cloud.google.com/logging/docs/view/logging-query-language, read 2026-11-29. Understood: `path op
value` with = != : > >= < <= =~ !~, `path:*` (is there), `path=("a" OR "b")`, log_id("x"), AND (or white space), OR, NOT
and `-`, parentheses, comments. Text compares without regard to case, but for regular expressions. NOT binds first, then
OR, then AND. Anything else is refused, never guessed: a value without a field, functions, a regular expression that
RE2 does not have.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from mockgcp.errors import ApiError, invalid

SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
# Characters of a filter (LogMetric.filter in the discovery document, entries.list's reference page).
_LENGTH_MAX = 20_000

Predicate = Callable[[Mapping[str, Any]], bool]

_BLANK = re.compile(r"(?:\s|--[^\n]*)*")
_PATH = re.compile(r'[A-Za-z_]\w*(?:\.(?:\w+|"[^"]*"))*')
_OP = re.compile(r"=~|!~|>=|<=|!=|=|:|>|<")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORD = re.compile(r"[\w.:/%+*-]+")
_AND, _OR, _NOT = (re.compile(rf"{word}\b") for word in ("AND", "OR", "NOT"))
_MINUS, _OPEN, _CLOSE = re.compile("-"), re.compile(r"\("), re.compile(r"\)")
# What Python's expressions have and RE2's have not: look-around, references, atomic groups, possessive quantifiers.
_NOT_RE2 = re.compile(r"\(\?(?:[=!>]|<[=!]|P=|\()|\\[1-9]|[*+?}]\+")


@lru_cache(maxsize=512)
def parse_filter(text: str) -> Predicate:
    """The predicate a filter stands for.

    Raises:
        ApiError: INVALID_ARGUMENT at the first thing that is not understood.
    """
    if len(text) > _LENGTH_MAX:
        raise invalid(
            f"The filter has {len(text)} characters, at most {_LENGTH_MAX} are taken.", ("filter", "too long")
        )
    parser = _Parser(text)
    if parser.done:
        return lambda entry: True
    found = parser.all_of()
    if not parser.done:
        raise parser.refusal()
    return found


def fields(path: str) -> list[str]:
    """The keys of a path: `labels."a.b/c"` is labels, then a.b/c."""
    return [key.strip('"') for key in re.findall(r'"[^"]*"|[^.]+', path)]


def values(node: Any, keys: Sequence[str]) -> list[Any]:
    """What a path leads to in an entry, every item of a list on the way. (Each line a task prints comes by here.)"""
    for at, key in enumerate(keys):
        if isinstance(node, list):
            return [found for item in node for found in values(item, keys[at:])]
        node = node.get(key) if isinstance(node, dict) else None
    if isinstance(node, list):
        return [found for item in node for found in values(item, ())]
    return [] if node is None else [node]


def unquoted(text: str) -> str:
    """The value of a quoted string. Of escapes only those of a quote and a backslash; others are a regex's own."""
    return re.sub(r'\\(["\\])', r"\1", text[1:-1])


def regex(pattern: str) -> re.Pattern[str]:
    """A regular expression as RE2 has it.

    Raises:
        ApiError: INVALID_ARGUMENT for one that is malformed, or that RE2 does not have.
    """
    try:
        if found := _NOT_RE2.search(pattern):
            raise ValueError(f"RE2 has no {found[0]!r}")
        return re.compile(pattern)
    except (re.error, ValueError) as error:
        raise invalid(f"Unparseable filter: regular expression {pattern!r}: {error}", ("filter", "")) from None


class _Parser:
    """Recursive descent; each method takes what it names from the text and leaves the rest."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def done(self) -> bool:
        return self._here() == len(self._text)

    def _here(self) -> int:
        blank = _BLANK.match(self._text, self._at)
        return blank.end() if blank else self._at

    def _peek(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self._text, self._here())
        return match[0] if match else None

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        found = self._peek(pattern)
        if found is not None:
            self._at = self._here() + len(found)
        return found

    def refusal(self) -> ApiError:
        rest = self._text[self._here() :][:40]
        return invalid(f"Unparseable filter: mockgcp does not understand it from {rest!r} on", ("filter", ""))

    def all_of(self) -> Predicate:
        terms = [self._any_of()]
        while not (self.done or self._peek(_CLOSE) or self._peek(_OR)):
            self._take(_AND)
            terms.append(self._any_of())
        return terms[0] if len(terms) == 1 else lambda entry: all(term(entry) for term in terms)

    def _any_of(self) -> Predicate:
        terms = [self._one()]
        while self._take(_OR):
            terms.append(self._one())
        return terms[0] if len(terms) == 1 else lambda entry: any(term(entry) for term in terms)

    def _one(self) -> Predicate:
        if self._take(_NOT) or self._take(_MINUS):
            inner = self._one()
            return lambda entry: not inner(entry)
        if self._take(_OPEN):
            inner = self.all_of()
            self._close()
            return inner
        refusal = self.refusal()
        path = None if self._peek(_AND) or self._peek(_OR) else self._take(_PATH)
        if path == "log_id" and self._take(_OPEN):
            name, _ = self._value()
            self._close()
            ending = f"/logs/{quote(name, safe='')}"
            return lambda entry: str(entry.get("logName", "")).endswith(ending)
        op = self._take(_OP)
        if path is None or op is None:
            raise refusal
        if not self._take(_OPEN):
            return _term(path, op, *self._value())
        terms = [_term(path, op, *self._value())]
        while self._take(_OR):
            terms.append(_term(path, op, *self._value()))
        self._close()
        return lambda entry: any(term(entry) for term in terms)

    def _close(self) -> None:
        if not self._take(_CLOSE):
            raise self.refusal()

    def _value(self) -> tuple[str, bool]:
        """A value, and whether it was quoted."""
        if quoted := self._take(_STRING):
            return unquoted(quoted), True
        refusal = self.refusal()
        word = None if any(self._peek(p) for p in (_AND, _OR, _NOT)) else self._take(_WORD)
        if word is None or self._text.startswith("(", self._at):  # a function
            raise refusal
        return word, False


def _term(path: str, op: str, value: str, quoted: bool) -> Predicate:
    keys = fields(path)
    if op in ("=~", "!~"):
        pattern = regex(value)
        return lambda entry: any(pattern.search(text(v)) for v in values(entry, keys)) == (op == "=~")
    if value == "*" and not quoted:
        if op != ":":
            raise invalid(f"Unparseable filter: {path} {op} *: only {path}:* is understood", ("filter", ""))
        return lambda entry: bool(values(entry, keys))
    rank: Callable[[Any], Any] = _RANKS.get(path, float if op in _ORDER else _folded)
    try:
        wanted = rank(value)
    except ValueError:
        raise invalid(f"Unparseable filter: {path} {op} {value!r} cannot be compared", ("filter", "")) from None

    def holds(entry: Mapping[str, Any]) -> bool:
        found = values(entry, keys)
        if op == ":":
            return any(_folded(value) in _folded(v) for v in found)
        if op == "!=":
            return all(rank(v) != wanted for v in found)
        if op == "=":
            return any(rank(v) == wanted for v in found)
        # Only numbers have a place among numbers.
        return any(_ORDER[op](rank(v), wanted) for v in found if rank is not float or isinstance(v, (int, float)))

    return holds


def text(value: Any) -> str:
    """A field's value as regular expressions see it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _folded(value: Any) -> str:
    return str(value).lower()


def _severity(name: str) -> int:
    return SEVERITIES.index(name.upper())


def instant(text: str) -> datetime:
    """The moment of an RFC 3339 timestamp, or of a date; UTC where it does not say."""
    moment = datetime.fromisoformat(text.upper())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# What a field's values are compared as; others as numbers by an order, and as text otherwise.
_RANKS: Mapping[str, Callable[[Any], Any]] = {
    "severity": _severity,
    "timestamp": instant,
    "receiveTimestamp": instant,
}
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
