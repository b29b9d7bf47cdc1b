"""What travels between a rank and its sidecar: the schema, and columns <-> messages.

Imports neither torch nor any other room, so that both ends can use it.
"""

ENDPOINT_VARIABLE = "TRACEML_ENDPOINT"  # where a rank finds its sidecar
TOKEN_FILE_VARIABLE = "TRACEML_TOKEN_FILE"  # what it shows at a TCP endpoint
TLS_CA_VARIABLE = "TRACEML_TLS_CA"  # whom it trusts there
TLS_CERT_VARIABLE = "TRACEML_TLS_CLIENT_CERT"  # and who it is
TLS_KEY_VARIABLE = "TRACEML_TLS_CLIENT_KEY"

TOKEN_KEY = "authorization"  # in a call's metadata
MAX_MESSAGE_BYTES = 2**20  # eight times the largest batch


def authorization(token: str) -> str:
    """What a call's metadata says of the token."""
    return f"Bearer {token}"
