"""What a request can be refused for, and how it is counted."""


class RefusedError(Exception):
    """Told to whoever asked; costs that request and nothing else."""

    reason = ""  # as metrics spell it
    status = ""  # gRPC's name for it


class ProtocolTooNewError(RefusedError):
    """A rank speaks a protocol that this sidecar does not know."""

    reason, status = "protocol", "FAILED_PRECONDITION"


class UnknownSessionError(RefusedError):
    """A rank speaks without having said hello to this sidecar."""

    reason, status = "session", "NOT_FOUND"

    def __str__(self) -> str:
        return "say hello first"


class MalformedError(RefusedError):
    """These bytes are no message, or one that no rank would send."""

    reason, status = "malformed", "INVALID_ARGUMENT"


class UnauthenticatedError(RefusedError):
    """Whoever this is does not know the token."""

    reason, status = "unauthenticated", "UNAUTHENTICATED"

    def __str__(self) -> str:
        return "a token is needed, and it is not this one"


class BusyError(RefusedError):
    """More is waiting for the disk than memory is set aside for."""

    reason, status = "busy", "RESOURCE_EXHAUSTED"

    def __str__(self) -> str:
        return "the disk is slow; again later"


UNREAD = "unread"  # refused by gRPC itself: too large, or broken off
INTERNAL = "internal"  # an error of ours

REASONS = (
    *(kind.reason for kind in RefusedError.__subclasses__()),
    UNREAD,
    INTERNAL,
)
