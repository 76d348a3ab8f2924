"""Asking a registry about manifests through its HTTP API: nothing is pulled.

The API: https://github.com/opencontainers/distribution-spec/blob/main/spec.md
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from dataclasses import dataclass
from typing import Any

import docker.auth
import requests

from ci.errors import ConfigError, ImageError, NetworkError

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_HUB = "docker.io"
_HUB_SERVER = "registry-1.docker.io"
_TIMEOUT_S = (5, 30)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a registry has under a tag or digest."""

    digest: str
    platforms: tuple[str, ...]
    """Such as ``linux/amd64``."""
    identifiers: tuple[str, ...]
    """By which an engine can call it: its own digest, those of its platforms, and of its configuration."""


@dataclass(frozen=True, kw_only=True)
class Repository:
    """One repository of a registry."""

    host: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Repository:
        """Return what a reference without tag and digest names, as docker reads it.

        Raises:
            ConfigError: it names none.
        """
        host, _, path = text.partition("/")
        if not path or not ("." in host or ":" in host or host == "localhost"):
            host, path = _HUB, text
        if not re.fullmatch(r"[a-z0-9]+([._/-]+[a-z0-9]+)*", path):
            raise ConfigError(f"`{text}` is no repository of a registry", hint="such as 127.0.0.1:5000/verl-e2e/cpu")
        if host == _HUB and "/" not in path:
            path = f"library/{path}"
        return cls(host=host, path=path)

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"

    def manifest(self, tag_or_digest: str) -> Manifest:
        """Return what the registry has under a tag or digest.

        Raises:
            ImageError: it has nothing there, refuses to say, or sends something else than was asked for.
            NetworkError: it does not answer.
        """
        response = self._get("manifests", tag_or_digest, accept=(*_INDEXES, *_MANIFESTS))
        digest = f"sha256:{hashlib.sha256(response.content).hexdigest()}"
        if tag_or_digest.startswith("sha256:") and digest != tag_or_digest:
            raise ImageError(f"{self.host} answers for {self}@{tag_or_digest} with another manifest, {digest}")
        document = self._parsed(response)
        if "manifests" in document:
            # An entry of unknown platform is an attestation about another: https://docs.docker.com/build/metadata/attestations/
            parts = [part for part in document["manifests"] if part.get("platform", {}).get("os") != "unknown"]
            return Manifest(
                digest=digest,
                platforms=tuple(_platform(part.get("platform", {})) for part in parts),
                identifiers=(digest, *(str(part["digest"]) for part in parts)),
            )
        if "config" not in document:
            raise ImageError(f"{self.host} answers for {self}:{tag_or_digest} with something that is no image")
        configuration = str(document["config"]["digest"])
        platform = _platform(self._parsed(self._get("blobs", configuration, accept=("*/*",))))
        return Manifest(digest=digest, platforms=(platform,), identifiers=(digest, configuration))

    def find(self, tag_or_digest: str) -> Manifest | None:
        """Return what is there, or None where the registry says that nothing is."""
        try:
            return self.manifest(tag_or_digest)
        except MissingError:
            return None

    def _get(self, kind: str, name: str, *, accept: tuple[str, ...]) -> requests.Response:
        url = f"{self._server}/v2/{self.path}/{kind}/{name}"
        separator = "@" if name.startswith("sha256:") else ":"
        shown = f"{self}{separator}{name}"
        headers = {"Accept": ", ".join(accept)}
        response = self._ask(url, headers)
        if response.status_code == requests.codes.unauthorized:
            headers |= self._authorization(response.headers.get("WWW-Authenticate", ""))
            response = self._ask(url, headers)
        match response.status_code:
            case requests.codes.ok:
                return response
            case requests.codes.not_found:
                raise MissingError(
                    f"{self.host} has no {shown}",
                    hint="`inv images.push` puts it there, `inv images.pin` finds another",
                )
            case requests.codes.unauthorized | requests.codes.forbidden:
                raise ImageError(
                    f"{self.host} refuses to show {shown} to this user",
                    hint=f"`docker login {self.host}`, or see the name",
                )
            case requests.codes.too_many_requests:
                raise NetworkError(
                    f"{self.host} has had too many requests", hint="wait, or `docker login` for a higher limit"
                )
            case code:
                raise NetworkError(
                    f"{self.host} answers {code} for {shown}", hint="see the registry's own log or status page"
                )

    def _ask(self, url: str, headers: dict[str, str], **options: Any) -> requests.Response:
        try:
            return requests.get(url, headers=headers, timeout=_TIMEOUT_S, **options)
        except requests.RequestException as error:
            reason = getattr(error.args[0], "reason", error) if error.args else error  # without urllib3's wrapping
            raise NetworkError(
                f"the registry {self.host} does not answer: {reason}", hint="see DNS, the proxy, and its certificate"
            ) from error

    def _authorization(self, challenge: str) -> dict[str, str]:
        """Answer a registry's challenge, with the credentials of `docker login` where there are some."""
        known = docker.auth.resolve_authconfig(docker.auth.load_config(), self.host) or {}
        basic = {}
        if known.get("username"):
            pair = f"{known['username']}:{known.get('password', '')}"
            basic["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() != "bearer":
            return basic
        given = dict(_PARAMETER.findall(rest))
        if "realm" not in given:
            return basic
        parameters = {"scope": f"repository:{self.path}:pull"} | {
            key: given[key] for key in ("service",) if key in given
        }
        response = self._ask(given["realm"], basic, params=parameters)
        if not response.ok:
            return basic
        answer = self._parsed(response)
        return {"Authorization": f"Bearer {answer.get('token') or answer.get('access_token')}"}

    def _parsed(self, response: requests.Response) -> dict[str, Any]:
        try:
            document = response.json()
        except ValueError as error:
            raise NetworkError(
                f"{self.host} answers with something that is no JSON", hint="is a proxy in between?"
            ) from error
        return document if isinstance(document, dict) else {}

    @property
    def _server(self) -> str:
        if self.host == _HUB:
            return f"https://{_HUB_SERVER}"
        name = self.host.rpartition(":")[0] or self.host
        try:
            local = ipaddress.ip_address(name.strip("[]")).is_loopback
        except ValueError:
            local = name == "localhost"
        return f"{'http' if local else 'https'}://{self.host}"  # as docker does


class MissingError(ImageError):
    """Report a tag or digest that a registry does not have."""


def _platform(entry: dict[str, Any]) -> str:
    return f"{entry.get('os', 'unknown')}/{entry.get('architecture', 'unknown')}"
