"""A repository with one small image in it: this machine's Python, and packages that are a file each."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ci.images.build import Built, build
from ci.images.specification import SPECIFICATIONS

SUITE = Path(__file__).parents[3]
SITE = "/opt/site"
# No shell is in it, so the commands of its Dockerfile are Python.
DOCKERFILE = f"""\
ARG BASE
FROM ${{BASE}}
SHELL ["python3", "-c"]
COPY site {SITE}
RUN import site, sys, pathlib; \\
    folder = pathlib.Path(next(entry for entry in site.getsitepackages())); \\
    folder.mkdir(parents=True, exist_ok=True); (folder / "site.pth").write_text("{SITE}")
ENV PYTHONPATH={SITE}
ARG BASE
ARG CONTENT_HASH
RUN --mount=type=bind,source=write_identity.py,target=/write_identity.py \\
    import os, runpy; \\
    runpy.run_path("/write_identity.py")["main"](["tiny", os.environ["CONTENT_HASH"], "unknown", os.environ["BASE"]])
LABEL org.opencontainers.image.base.name="${{BASE}}" verl-e2e.test=tiny
USER 1000:1000
"""


@dataclass(frozen=True, kw_only=True)
class SmallRepository:
    """A repository whose image can be spoilt in many ways."""

    root: Path
    base: str

    @property
    def folder(self) -> Path:
        return self.root / "containers" / "tiny"

    def build(self) -> Built:
        built = build("tiny", self.root, base=self.base)
        assert built is not None
        return built

    def append(self, *lines: str) -> None:
        """Add instructions to the end of the Dockerfile."""
        with (self.folder / "Dockerfile").open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def holds(self, **demands: Any) -> None:
        """Demand other things of the image than that it has the package wheel-like in version 1.0."""
        document = yaml.safe_load((self.root / SPECIFICATIONS).read_text())
        document["images"]["tiny"]["holds"] |= demands
        (self.root / SPECIFICATIONS).write_text(yaml.safe_dump(document))

    def package(self, name: str, version: str, *, source: str = "", folder: str = "site") -> None:
        """Put a package of one module into a folder of the build."""
        place = self.folder / folder
        information = place / f"{name}-{version}.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (place / f"{name}.py").write_text(source or f"__version__ = {version!r}\n")


def small_repository(root: Path, base: str) -> SmallRepository:
    """Make the repository, and demand what its image holds."""
    repository = SmallRepository(root=root, base=base)
    repository.folder.mkdir(parents=True)
    (repository.folder / "Dockerfile").write_text(DOCKERFILE)
    repository.package("torch", "2.0.0+cpu")
    demands: Mapping[str, Any] = {"imports": ["torch", "json"], "versions": {"torch": "2.0.0"}, "programs": ["python3"]}
    specification = {
        "summary": "small",
        "platforms": ["linux/amd64", "linux/arm64"],
        "base": {"tag": "docker.io/library/scratch", "digest": None, "resolved": False},
        "capabilities": ["fsdp"],
        "holds": demands,
    }
    (root / SPECIFICATIONS).write_text(yaml.safe_dump({"images": {"tiny": specification}}))
    writer = root / "ci" / "images" / "write_identity.py"
    writer.parent.mkdir(parents=True)
    shutil.copy(SUITE / "ci" / "images" / "write_identity.py", writer)
    return repository
