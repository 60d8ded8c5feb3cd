"""The TLS of a node: version 1.3, our certificate shown, and none accepted but those that are pinned."""

from __future__ import annotations

import os
import ssl

from masquerade.net.identity import Identity


def accepting(identity: Identity, pins: bytes) -> ssl.SSLContext:
    """Return the side of a server that takes clients with one of these certificates (PEM) and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # nothing is resumed
    return _pinning(context, identity, pins)


def dialling(identity: Identity, pin: bytes) -> ssl.SSLContext:
    """Return the side of a client that talks to the holder of this certificate (PEM) and to nobody else."""
    return _pinning(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity, pin)


def looking(identity: Identity) -> ssl.SSLContext:
    """Return the side of a client that shows who it is, and looks at whatever certificate it gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _showing(context, identity)


def _pinning(context: ssl.SSLContext, identity: Identity, pins: bytes) -> ssl.SSLContext:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a pinned certificate needs no authority above it
    context.load_verify_locations(cadata=pins.decode())
    return _showing(context, identity)


def _showing(context: ssl.SSLContext, identity: Identity) -> ssl.SSLContext:
    """Load our certificate, through pipes, so that the key never is on disk."""
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    ends = [_readable(part) for part in (identity.certificate, identity.key)]
    try:
        context.load_cert_chain(*(f"/dev/fd/{end}" for end in ends))
    finally:
        for end in ends:
            os.close(end)
    return context


def _readable(data: bytes) -> int:
    """Return a descriptor from which these few bytes can be read."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading
