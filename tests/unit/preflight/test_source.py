from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ci.errors import ConfigError, NetworkError
from ci.plan import Verl
from ci.verl.index import index_url, project_files
from ci.verl.source import find_source
from tests.unit.preflight.fake_verl import FILES


def _wheel() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(f"verl/{name}", text)
    return content.getvalue()


WHEEL = _wheel()
SHA256 = hashlib.sha256(WHEEL).hexdigest()


class Index(HTTPServer):
    """A package index with one project; counts what it is asked for."""

    json = True
    sha256 = SHA256
    asked: list[str]


class Answer(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        login = self.headers.get("Authorization")
        if self.path == "/simple/verl/":
            names = ["verl-9.9.8-py3-none-any.whl", "verl-9.9.9-py3-none-any.whl", "verl-9.9.9.tar.gz"]
            if self.server.json:
                files = [{"filename": n, "url": f"../../{n}", "hashes": {"sha256": self.server.sha256}} for n in names]
                self._say(json.dumps({"files": files}).encode(), "application/vnd.pypi.simple.v1+json")
            else:
                links = "".join(f'<a href="../../{n}#sha256={self.server.sha256}">{n}</a>' for n in names)
                self._say(f"<html>{links}</html>".encode(), "text/html")
        elif self.path.endswith(".whl"):
            self._say(WHEEL, "application/zip")
        elif self.path == "/private/verl/" and login == "Basic dXNlcjpwOnc=":
            self._say(b'{"files": []}', "application/vnd.pypi.simple.v1+json")
        else:
            self.send_error(404)

    def _say(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name in the base class)
        pass


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with Index(("127.0.0.1", 0), Answer) as server:
        server.asked = []
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("as_json", [True, False])
def test_a_release_is_fetched_once(index: Index, as_json: bool) -> None:
    index.json = as_json
    first = find_source(Verl(kind="release", name="9.9.9"))
    asked = list(index.asked)
    again = find_source(Verl(kind="release", name="v9.9.9"))
    assert (first.root / "verl/trainer/main_ppo.py").is_file()
    assert (first.version, first.commit, first.fingerprint) == ("9.9.9", None, "release:9.9.9")
    assert again == first
    assert index.asked == asked == ["/simple/verl/", "/verl-9.9.9-py3-none-any.whl"]


def test_a_release_that_is_none_names_the_nearest(index: Index) -> None:
    with pytest.raises(ConfigError, match=r"no verl 9\.9\.7; the nearest releases are 9\.9\.(8|9), 9\.9\.(8|9)"):
        find_source(Verl(kind="release", name="9.9.7"))


def test_a_damaged_wheel_is_refused_and_not_kept(index: Index, cache: Path) -> None:
    index.sha256 = "0" * 64
    with pytest.raises(NetworkError, match="came damaged"):
        find_source(Verl(kind="release", name="9.9.9"))
    assert not (cache / "releases" / "verl-9.9.9").exists()


def test_an_index_out_of_reach_is_the_networks_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:9/simple could not be reached") as caught:
        find_source(Verl(kind="release", name="9.9.9"))
    assert "secret" not in str(caught.value)


def test_credentials_of_an_index_are_sent(index: Index) -> None:
    address = f"http://user:p%3Aw@127.0.0.1:{index.server_port}"
    assert project_files("verl", index=f"{address}/private") == ()
    with pytest.raises(ConfigError, match="has no project verl"):
        project_files("verl", index=f"{address}/none")


def test_the_index_is_the_one_pip_would_use(tmp_path: Path) -> None:
    configuration = tmp_path / "pip" / "pip.conf"
    configuration.parent.mkdir()
    configuration.write_text("[global]\nindex-url = https://mirror.invalid/simple/\n")
    machine = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert index_url(machine) == "https://mirror.invalid/simple"
    assert index_url(machine | {"PIP_INDEX_URL": "https://other.invalid/simple/"}) == "https://other.invalid/simple"


def test_a_checkout_is_read_and_left_alone(fake_verl: Path) -> None:
    git = ["git", "-C", str(fake_verl), "-c", "user.name=t", "-c", "user.email=t@t.invalid"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    before = {path: path.stat().st_mtime_ns for path in fake_verl.rglob("*") if path.is_file()}
    clean = find_source(Verl(kind="checkout", name=str(fake_verl)))
    assert {path: path.stat().st_mtime_ns for path in fake_verl.rglob("*") if path.is_file()} == before
    assert clean.commit is not None
    assert len(clean.commit) == 40
    assert not clean.dirty
    (fake_verl / "verl/trainer/main_ppo.py").write_text("import torch, ray\n")
    changed = find_source(Verl(kind="checkout", name=str(fake_verl)))
    assert changed.commit == f"{clean.commit}+dirty"
    assert changed.fingerprint != clean.fingerprint


def test_a_folder_in_another_repository_has_no_commit(tmp_path: Path, fake_verl: Path) -> None:
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True, env={**os.environ})
    assert find_source(Verl(kind="checkout", name=str(fake_verl))).commit is None


def test_a_folder_without_verl_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no checkout of verl"):
        find_source(Verl(kind="checkout", name=str(tmp_path)))


def test_the_verl_of_this_machines_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / "site" / "verl" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / "verl" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    assert find_source(Verl(kind="installed", name="python3")).root == tmp_path / "site"
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(ConfigError, match="there is no verl to test: none is named, and python3 of this machine"):
        find_source(Verl(kind="installed", name="python3"))
