"""Write, at the end of a build, which image this is. Runs in the image's own Python, on nothing but that."""

import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "UV_PROJECT_ENVIRONMENT")
_PREFIXES = ("ASCEND_", "ATB_", "TOOLCHAIN_")
"""What decides which programs and libraries are found. No other: one can hold a proxy's password."""


def main(words: Sequence[str]) -> None:
    """Write the identity: image, content hash, the suite's commit, base."""
    name, content_hash, source_commit, base = words
    versions = {found.metadata["Name"]: found.version for found in distributions()}
    identity = {
        "name": name,
        "content_hash": content_hash,
        "source_commit": source_commit,
        "base": base,
        "environment": {
            name: value for name, value in os.environ.items() if name in _VARIABLES or name.startswith(_PREFIXES)
        },
        "versions": dict(sorted(versions.items(), key=lambda item: item[0].lower())),
    }
    target = Path("/etc/verl-e2e/image.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(identity, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
