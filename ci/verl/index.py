"""The package index, as far as one wheel of verl needs it: the files of a project, and the download of one.

Written on urllib because the virtual environment that nox makes for the noxfile may be made by uv, without pip.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import json
import os
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from ci.errors import ConfigError, NetworkError

DEFAULT_INDEX = "https://pypi.org/simple"
TIMEOUT_S = 20.0
# https://packaging.python.org/en/latest/specifications/simple-repository-api/: JSON where the index knows it
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, kw_only=True)
class IndexFile:
    """One file of a project on the index."""

    name: str
    url: str
    sha256: str | None
    """Hash the index states, where it does."""


def index_url(environment: Mapping[str, str] = os.environ) -> str:
    """Return the index that pip would use: the environment first, then pip's configuration files."""
    for variable in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if environment.get(variable):
            return environment[variable].rstrip("/")
    return _configured("index-url", environment) or DEFAULT_INDEX


def project_files(project: str, *, index: str) -> tuple[IndexFile, ...]:
    """List the files of a project, oldest first as indexes have them.

    Raises:
        ConfigError: The index has no such project.
        NetworkError: The index did not answer.
    """
    page = f"{index}/{project}/"
    try:
        body, content_type, page = _read(page, accept=_ACCEPT)
    except urllib.error.HTTPError as error:
        if error.code == 404:  # noqa: PLR2004
            raise ConfigError(f"the index {_shown(index)} has no project {project}") from error
        raise _unreachable(index, error) from error
    except (OSError, ValueError) as error:
        raise _unreachable(index, error) from error
    if "json" in content_type:
        return tuple(
            IndexFile(
                name=file["filename"],
                url=urllib.parse.urljoin(page, file["url"]),
                sha256=file.get("hashes", {}).get("sha256"),
            )
            for file in json.loads(body)["files"]
        )
    links = _Links()
    links.feed(body.decode("utf-8", "replace"))
    return tuple(_linked(page, target) for target in links.targets)


def download(file: IndexFile) -> bytes:
    """Return the content of a file, compared to the hash that the index states.

    Raises:
        NetworkError: The file could not be fetched, or is not what the index says.
    """
    try:
        body, _, _ = _read(file.url, accept="*/*")
    except (OSError, ValueError) as error:
        raise _unreachable(file.url, error) from error
    if file.sha256 and hashlib.sha256(body).hexdigest() != file.sha256:
        raise NetworkError(
            f"{file.name} came damaged: its sha256 is not the one that the index states",
            hint="try again; a proxy that answers with a page of its own does this",
        )
    return body


class _Links(HTMLParser):
    """Targets of all links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the target of an anchor."""
        if tag == "a":
            self.targets.extend(value for name, value in attrs if name == "href" and value)


def _linked(page: str, target: str) -> IndexFile:
    url, _, fragment = urllib.parse.urljoin(page, target).partition("#")
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
    return IndexFile(
        name=name, url=url, sha256=fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
    )


def _read(url: str, *, accept: str) -> tuple[bytes, str, str]:
    """Return body, content type and final address; credentials in the address become a header, as pip does it."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https", "file"}:
        raise ValueError(f"{parts.scheme or 'no'} scheme")
    headers = {"Accept": accept, "User-Agent": "verl-e2e"}
    if parts.username:
        login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (scheme checked above)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=_certificates()) as answer:  # noqa: S310
        return answer.read(), answer.headers.get("Content-Type") or "", answer.geturl()


def _certificates() -> ssl.SSLContext:
    """Trust what pip and requests would trust; OpenSSL itself reads SSL_CERT_FILE and SSL_CERT_DIR."""
    bundle = next((os.environ[name] for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE") if os.environ.get(name)), None)
    bundle = bundle or _configured("cert", os.environ)
    context = ssl.create_default_context()
    if bundle and Path(bundle).is_file():
        context.load_verify_locations(cafile=bundle)
    return context


def _configured(option: str, environment: Mapping[str, str]) -> str | None:
    """Return an option of pip's configuration: user before machine, https://pip.pypa.io/en/stable/topics/configuration/."""
    home = Path(environment.get("HOME", "~")).expanduser()
    candidates = (
        Path(environment["PIP_CONFIG_FILE"]) if environment.get("PIP_CONFIG_FILE") else None,
        Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
        home / ".pip" / "pip.conf",
        *(
            Path(folder) / "pip" / "pip.conf"
            for folder in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
        ),
        Path("/etc/pip.conf"),
    )
    for path in candidates:
        if path is None or not path.is_file():
            continue
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except configparser.Error:
            continue
        value = parser.get("global", option, fallback="").strip()
        if value:
            return value.rstrip("/")
    return None


def _unreachable(address: str, error: Exception) -> NetworkError:
    return NetworkError(
        f"{_shown(address)} could not be reached: {error}",
        hint="set PIP_INDEX_URL to an index of yours, or give a checkout: --verl PATH",
    )


def _shown(address: str) -> str:
    """Hide credentials of an address."""
    return re.sub(r"//[^/@]+@", "//…@", address)
