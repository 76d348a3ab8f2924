"""How pip is set up on the building machine, as far as it means something inside a build."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_CARRIED = ("index-url", "extra-index-url", "trusted-host", "default-timeout", "timeout", "proxy")
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True, kw_only=True)
class PipSettings:
    """What a build is given of them, none of which stays in a layer."""

    configuration: str
    """Text of a pip.conf; it can hold credentials of an index."""
    certificates: Path | None
    """The bundle that pip here trusts, where it is not pip's own."""
    links: tuple[Path, ...]
    """Folders of this machine with wheels."""


def pip_settings(environment: Mapping[str, str]) -> PipSettings:
    """Return pip's settings from its files and variables, in pip's own order of precedence."""
    listed = subprocess.run(
        (sys.executable, "-m", "pip", "config", "list"), capture_output=True, text=True, check=False, env=environment
    )
    return interpreted(listed.stdout, environment)


def interpreted(listed: str, environment: Mapping[str, str]) -> PipSettings:
    """Return what ``pip config list`` printed; where pip is absent, what its variables say."""
    settings = {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in environment.items()
        if name.startswith("PIP_")
    }
    for line in listed.splitlines():
        key, separator, value = line.partition("=")
        if separator and not key.startswith(":env:"):
            settings.setdefault(key.rpartition(".")[2], str(ast.literal_eval(value)))
    carried = {key: _remote(settings[key]) for key in _CARRIED if key in settings}
    lines = [f"{key} = {value}" for key, value in carried.items() if value]
    bundle = settings.get("cert") or next((environment[name] for name in _CERTIFICATES if environment.get(name)), None)
    return PipSettings(
        configuration="\n".join(("[global]", *lines, "")),
        certificates=Path(bundle) if bundle and Path(bundle).is_file() else None,
        links=tuple(link for word in settings.get("find-links", "").split() if (link := Path(word)).is_dir()),
    )


def _remote(value: str) -> str:
    """Return the words of a setting that mean the same in a container: a file of this machine does not."""
    return " ".join(word for word in value.split() if not word.startswith("file:"))
