"""What `containers/images.yaml` says of each image: what it is made from, and what it offers to scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

from ci.errors import collected

SPECIFICATIONS = "containers/images.yaml"


class Specification(BaseModel):
    """One image."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    summary: str
    folder: str | None = None
    """Folder of the Dockerfile, for an image that is built from this repository."""
    inputs: tuple[str, ...] = ()
    """Files from elsewhere in the repository that the build needs beside the folder's own."""
    upstream: str | None = None
    """Reference of an image that others build."""
    provides: tuple[str, ...]
    """Capabilities that a scenario may need."""

    @model_validator(mode="after")
    def _comes_from_somewhere(self) -> Self:
        if (self.folder is None) == (self.upstream is None):
            raise ValueError("an image has either a folder to be built from or an upstream reference")
        return self


def load_specifications(root: Path) -> dict[str, Specification]:
    """Return every image by name.

    Raises:
        ConfigError: with one line for each problem of the file.
    """
    try:
        document = yaml.safe_load((root / SPECIFICATIONS).read_bytes())
        return TypeAdapter(dict[str, Specification]).validate_python(document)
    except yaml.YAMLError as error:
        raise collected([str(error)], what=f"{SPECIFICATIONS} is not valid") from error
    except pydantic.ValidationError as error:
        problems = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
        raise collected(problems, what=f"{SPECIFICATIONS} is not valid") from error
