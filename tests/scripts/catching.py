"""Write down every signal that comes, until a file is there; no torch."""

import os
import signal
import sys
import time
from pathlib import Path

caught, ready, over = (Path(argument) for argument in sys.argv[1:])


def catch(number: int, frame: object) -> None:
    with caught.open("a") as file:
        file.write(f"{number}\n")


for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(each, catch)
ready.write_text(str(os.getpid()))
while not over.exists():
    time.sleep(0.02)
