"""Write, at the end of a build, which image this is. Runs in the image's own Python, on nothing but that."""

import json
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path


def main(words: Sequence[str]) -> None:
    """Write the identity: image, content hash, the suite's commit, base."""
    name, content_hash, source_commit, base = words
    versions = {found.metadata["Name"]: found.version for found in distributions()}
    identity = {
        "name": name,
        "content_hash": content_hash,
        "source_commit": source_commit,
        "base": base,
        "versions": dict(sorted(versions.items(), key=lambda item: item[0].lower())),
    }
    target = Path("/etc/verl-e2e/image.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(identity, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
