"""What travels between a rank and its sidecar: the schema, and columns <-> messages.

Imports neither torch nor any other room, so that both ends can use it.
"""

ENDPOINT_VARIABLE = "TRACEML_ENDPOINT"  # where a rank finds its sidecar
