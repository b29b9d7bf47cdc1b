"""TLS between the bytes of HTTP/2 and those on the wire; it never sees the socket itself."""

import os
import ssl

from traceml.wire import TLS_CA_VARIABLE, TLS_CERT_VARIABLE, TLS_KEY_VARIABLE

_HTTP2 = "h2"
_CHUNK_BYTES = 2**16


class Tls:
    """The client's side of TLS. OSError if the other side is not who it should be."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._is_agreed = False
        self._unsealed = bytearray()  # waits for the handshake

    def seal(self, data: bytes) -> bytes:
        """Its records; before the handshake is over, what that has to say."""
        self._unsealed += data
        if self._agree():
            while self._unsealed:
                del self._unsealed[: self._tls.write(self._unsealed)]
        return self._outgoing.read()

    def unseal(self, data: bytes) -> bytes:
        """What these records hold, as far as they are whole."""
        self._incoming.write(data)
        return b"".join(iter(self._read, b"")) if self._agree() else b""

    def _agree(self) -> bool:
        if not self._is_agreed:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                return False
            if self._tls.selected_alpn_protocol() != _HTTP2:
                raise ConnectionError("the other side does not speak HTTP/2")
            self._is_agreed = True
        return True

    def _read(self) -> bytes:
        try:
            return self._tls.read(_CHUNK_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):  # nothing yet, or for good
            return b""


def client_context() -> ssl.SSLContext:
    """Whom the environment says to trust, and who it says we are."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(os.environ[TLS_CA_VARIABLE])
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an authority below a root will do
    context.set_alpn_protocols([_HTTP2])
    certificate = os.environ.get(TLS_CERT_VARIABLE)
    if certificate:
        # With a password, be it wrong, nobody asks for one at the terminal.
        context.load_cert_chain(certificate, os.environ.get(TLS_KEY_VARIABLE), password="")
    return context
