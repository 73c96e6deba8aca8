"""The keys and certificates of a cluster, valid for a day or two: a rehearsal's cluster does not get older.

Elliptic curves, since a cluster is made anew each time and RSA keys take a second each.
"""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_EARLY, _LATE = timedelta(hours=1), timedelta(days=2)


class Authority:
    """A certificate authority that writes what it signs into a folder, as NAME.crt and NAME.key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("cluster-ca", ())
        made = _builder(self._name, self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._write("ca", made.sign(self._key, hashes.SHA256()), self._key)

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    def sign(self, file: str, common_name: str, *groups: str, hosts: tuple[str, ...] = ()) -> None:
        """A certificate of that user and those groups, and for those DNS names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(_name(common_name, groups), self._name, key.public_key())
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = made.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        if hosts:
            made = made.add_extension(x509.SubjectAlternativeName(list(map(_general_name, hosts))), critical=False)
        self._write(file, made.sign(self._key, hashes.SHA256()), key)

    def key_pair(self, file: str) -> None:
        """A key for service accounts' tokens: NAME.key, and NAME.pub to verify them by."""
        key = ec.generate_private_key(ec.SECP256R1())
        _secret(self.folder / f"{file}.key", _pem(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self.folder / f"{file}.pub").write_bytes(public)

    def _write(self, file: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        _secret(self.folder / f"{file}.key", _pem(key))
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)  # the machine's time, which is what TLS goes by, not the emulated cloud's
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(now - _EARLY).not_valid_after(now + _LATE)


def _name(common_name: str, groups: tuple[str, ...]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _secret(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
