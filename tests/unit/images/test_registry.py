"""A registry's answers, from a server that gives those a real one seldom gives."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ci.errors import ConfigError, ImageError, NetworkError
from ci.images.outdated import newest_release
from ci.images.registry import Repository

INDEX = json.dumps(
    {
        "manifests": [
            {"digest": f"sha256:{'a' * 64}", "platform": {"os": "linux", "architecture": "amd64"}},
            {"digest": f"sha256:{'b' * 64}", "platform": {"os": "linux", "architecture": "arm64"}},
            {"digest": f"sha256:{'c' * 64}", "platform": {"os": "unknown", "architecture": "unknown"}},
        ]
    }
).encode()


@dataclass(kw_only=True)
class Answers:
    """What the server says; each path once or always."""

    host: str = ""
    by_path: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    token: str | None = None
    """When set, only its bearer is answered; others are sent to ``/token``."""
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def answers() -> Iterator[Answers]:
    given = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given.asked.append(self.path)
            path = self.path.partition("?")[0]
            if path == "/token":
                self._send(200, json.dumps({"token": given.token}).encode())
            elif given.token and self.headers.get("Authorization") != f"Bearer {given.token}":
                challenge = f'Bearer realm="http://{given.host}/token",service="tests"'
                self._send(401, b"{}", {"WWW-Authenticate": challenge})
            else:
                self._send(*given.by_path.get(path, (404, b"{}")))

        def _send(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(code)
            for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # its name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    given.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield given
    server.shutdown()
    thread.join()
    server.server_close()


def _repository(answers: Answers) -> Repository:
    return Repository.parse(f"{answers.host}/a/b")


def test_an_index_tells_its_platforms_and_leaves_attestations_out(answers: Answers) -> None:
    answers.by_path["/v2/a/b/manifests/tag"] = (200, INDEX)
    found = _repository(answers).manifest("tag")
    assert found.digest == f"sha256:{hashlib.sha256(INDEX).hexdigest()}"
    assert found.platforms == ("linux/amd64", "linux/arm64")
    assert f"sha256:{'a' * 64}" in found.identifiers


def test_a_token_is_fetched_where_the_registry_wants_one(answers: Answers) -> None:
    answers.token = "t"
    answers.by_path["/v2/a/b/manifests/tag"] = (200, INDEX)
    assert _repository(answers).manifest("tag").platforms
    assert any(path.startswith("/token?") and "repository%3Aa%2Fb%3Apull" in path for path in answers.asked)


def test_another_manifest_than_the_digest_is_refused(answers: Answers) -> None:
    digest = f"sha256:{'d' * 64}"
    answers.by_path[f"/v2/a/b/manifests/{digest}"] = (200, INDEX)
    with pytest.raises(ImageError, match="with another manifest"):
        _repository(answers).manifest(digest)


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (404, ImageError, "has no"),
        (403, ImageError, "refuses to show"),
        (429, NetworkError, "too many requests"),
        (500, NetworkError, "answers 500"),
    ],
)
def test_each_refusal_says_what_it_is(answers: Answers, code: int, error: type[Exception], text: str) -> None:
    answers.by_path["/v2/a/b/manifests/tag"] = (code, b"{}")
    with pytest.raises(error, match=text):
        _repository(answers).manifest("tag")


def test_a_page_of_a_proxy_is_no_manifest(answers: Answers) -> None:
    answers.by_path["/v2/a/b/manifests/tag"] = (200, b"<html>sign in</html>")
    with pytest.raises(NetworkError, match="no JSON"):
        _repository(answers).manifest("tag")


def test_only_what_is_missing_is_none(answers: Answers) -> None:
    assert _repository(answers).find("tag") is None
    answers.by_path["/v2/a/b/manifests/tag"] = (403, b"{}")
    with pytest.raises(ImageError):
        _repository(answers).find("tag")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("python", "docker.io/library/python"),
        ("verlai/verl", "docker.io/verlai/verl"),
        ("docker.io/library/python", "docker.io/library/python"),
        ("quay.io/ascend/cann", "quay.io/ascend/cann"),
        ("localhost/verl", "localhost/verl"),
        ("registry:5000/verl", "registry:5000/verl"),
    ],
)
def test_names_are_read_as_docker_reads_them(text: str, shown: str) -> None:
    assert str(Repository.parse(text)) == shown


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="is no repository"):
        Repository.parse("localhost:5000/Upper")


def test_the_newest_release_is_neither_yanked_nor_early() -> None:
    files = [
        {"filename": "torch-2.11.0-py3-none-any.whl"},
        {"filename": "torch-2.12.0.tar.gz"},
        {"filename": "torch-2.13.0-py3-none-any.whl", "yanked": "broken"},
        {"filename": "torch-2.14.0rc1-py3-none-any.whl"},
        {"filename": "torch-nightly.zip"},
    ]
    assert str(newest_release(files)) == "2.12.0"
    assert newest_release([]) is None
