"""Takes nvcc's place for candidates: a "fatbin" that names the library of kernels which a C++ compiler has made."""

import sys
import tempfile
from pathlib import Path

from tests.tuner.gpu.stand_in import kernels_of

FATBIN = (0xBA55ED50).to_bytes(4, "little")


def main() -> None:
    """Compile the last argument to the file behind ``-o``."""
    binary, source = Path(sys.argv[sys.argv.index("-o") + 1]), Path(sys.argv[-1])
    library = Path(tempfile.mkdtemp()) / "kernels.so"
    kernels_of(source.read_text(), library)
    binary.write_bytes(FATBIN + str(library).encode() + bytes(1))


if __name__ == "__main__":
    main()
