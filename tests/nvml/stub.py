"""GPUs that are not there, behind the real binding."""

import subprocess
from pathlib import Path

import pynvml

from tests.conftest import require_program

SOURCE = Path(__file__).with_name("stub.c")
SONAME = "libnvidia-ml.so.1"

GPU_IS_LOST = f"!{pynvml.NVML_ERROR_GPU_IS_LOST}"
DRIVER_NOT_LOADED = f"!{pynvml.NVML_ERROR_DRIVER_NOT_LOADED}"
NO_PERMISSION = f"!{pynvml.NVML_ERROR_NO_PERMISSION}"
UNKNOWN = f"!{pynvml.NVML_ERROR_UNKNOWN}"

# The GPU is well, but can't answer.
UNANSWERED = tuple(
    f"!{error}"
    for error in (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
        pynvml.NVML_ERROR_NOT_READY,
    )
)

UUIDS = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "GPU-8a0172e3-59f3-42d1-b6ab-1c2f3a4b5c6d",
)


def build(folder: Path, *defines: str) -> Path:
    """The stub as a library, under the name by which the binding looks for NVML's."""
    library = folder / SONAME
    options = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{SONAME}"]
    options += [f"-D{name}" for name in defines]
    gcc = require_program("gcc")
    subprocess.run([gcc, *options, "-o", str(library), str(SOURCE)], check=True, timeout=60)
    return library


class Machine:
    """What the stub answers, and may answer otherwise from one call to the next."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lines = {"gpus": str(len(UUIDS))}
        for gpu, uuid in enumerate(UUIDS):
            self.answer(gpu, uuid=uuid, utilization=87, memory_used=3 << 30, memory_size=8 << 30)
            self.answer(gpu, temperature=61 + gpu, power=281_500, power_limit=300_000, reasons=0)
            self.answer(gpu, sm_clock=1700, sm_clock_max=1980, xids="none")
            self.answer(gpu, ecc_corrected=5, ecc_uncorrected=0)

    def answer(self, gpu: int, **quantities: int | str) -> None:
        """Have this GPU answer so; a text with "!" is the number of an error."""
        for name, value in quantities.items():
            self.state(f"{gpu}.{name}", value)

    def state(self, key: str, value: int | str) -> None:
        """Set a line; of "driver" or of a GPU's number an error, or 0 for none."""
        self._lines[key] = str(value)
        fresh = self.file.with_suffix(".new")
        fresh.write_text("".join(f"{name} {text}\n" for name, text in self._lines.items()))
        fresh.replace(self.file)
