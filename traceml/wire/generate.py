"""Writes the generated code next to `telemetry.proto`: `python -m traceml.wire.generate`."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def generate(into: Path = ROOT) -> None:
    """Compile the schema below `into`; needs grpcio-tools."""
    from grpc_tools import protoc

    # Compiled from the root, so that its name in the process-wide descriptor
    # pool is ours alone: a user's own telemetry.proto must not collide with it.
    schema = "traceml/wire/telemetry.proto"
    status = protoc.main(
        ["protoc", f"-I{ROOT}", f"--python_out={into}", f"--pyi_out={into}", schema]
    )
    if status != 0:
        sys.exit(status)


if __name__ == "__main__":
    generate()
