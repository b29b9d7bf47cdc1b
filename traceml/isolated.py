"""Running a module of ours where the user's files can't pass for those it needs."""

import sys


def command(module: str) -> list[str]:
    """The command that runs `module.main()` without the current folder on its path.

    `python -m` would put it there, and a user's own `types.py` before the library's.
    """
    return [
        sys.executable,
        "-c",
        "import sys; sys.path = [entry for entry in sys.path if entry]; "
        f"from {module} import main; sys.exit(main())",
    ]
