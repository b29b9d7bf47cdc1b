"""What a user got wrong, and the exit code that says so (after BSD's sysexits)."""

USAGE = 2
UNREADABLE = 2  # a run or a summary of one that can't be used
NO_INPUT = 66
CANNOT_CREATE = 73
BAD_CONFIG = 78
BROKEN_PIPE = 128 + 13  # as a shell says of a program that SIGPIPE ended


class CommandError(Exception):
    """Told in one line on standard error, without a traceback."""

    def __init__(self, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
