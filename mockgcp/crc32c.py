"""The checksum of Cloud Storage objects: CRC-32C (Castagnoli), which the standard library does not have."""

from __future__ import annotations

_REVERSED_POLYNOMIAL = 0x82F63B78


def _entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (_REVERSED_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = tuple(_entry(byte) for byte in range(256))


def crc32c(content: bytes) -> int:
    """The checksum of `content`; about a second for 10 MB."""
    value = 0xFFFFFFFF
    for byte in content:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF
