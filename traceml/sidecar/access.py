"""Who may speak to the sidecar: this user on a unix socket, or who proves it over TCP."""

import hmac
from dataclasses import dataclass
from typing import Any

from traceml.sidecar.refusal import UnauthenticatedError
from traceml.wire import TOKEN_KEY, authorization


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller must show. Nothing, on a unix socket: the system guards that."""

    token: str = ""
    key: bytes = b""  # of the sidecar itself, PEM as are the others
    certificate: bytes = b""
    client_authority: bytes = b""  # callers need a certificate that it has signed

    def credentials(self) -> Any:
        """gRPC's server credentials; None for a connection without TLS."""
        if not self.certificate:
            return None
        import grpc

        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.client_authority or None,
            require_client_auth=bool(self.client_authority),
        )

    def check(self, metadata: Any) -> None:
        """UnauthenticatedError for a call that does not show the token."""
        if not self.token:
            return
        shown = next((str(value) for name, value in metadata or () if name == TOKEN_KEY), "")
        if not hmac.compare_digest(shown.encode(), authorization(self.token).encode()):
            raise UnauthenticatedError
