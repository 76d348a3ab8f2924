"""What is read from this machine: builders, pip's settings, the identity of the image it was started from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.errors import ImageError
from ci.images.builder import find_builder
from ci.images.identity import inside_image
from ci.images.pip_settings import interpreted
from ci.images.shell import shell_command


def _program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


OLD = '[ "$1" = buildx ] && exit 1; echo 20.10.24+dfsg1'
NEW = '[ "$1" = buildx ] && exit 1; echo 28.2.2'
PLUGGED = '[ "$1" = buildx ] && echo github.com/docker/buildx v0.17.1 && exit 0; echo 28.2.2'


def test_a_client_without_buildx_is_passed_over_for_one_that_can(tmp_path: Path) -> None:
    _program(tmp_path / "a", "docker", NEW)
    good = _program(tmp_path / "b", "docker", OLD)
    builder = find_builder(path=f"{tmp_path}/a:{tmp_path}/b")
    assert builder.program == str(good)
    assert str(builder) == f"{good} (docker 20.10.24+dfsg1, BuildKit built in)"


def test_buildx_makes_a_newer_client_a_builder(tmp_path: Path) -> None:
    good = _program(tmp_path / "a", "docker", PLUGGED)
    assert find_builder(path=str(tmp_path / "a")).program == str(good)


def test_podman_builds_into_its_own_store(tmp_path: Path) -> None:
    good = _program(tmp_path / "a", "podman", "echo 5.2.0")
    builder = find_builder(podman="unix:///podman.sock", path=str(tmp_path / "a"))
    assert (builder.program, builder.version) == (str(good), "podman 5.2.0")
    assert builder.command[1:4] == ("--url", "unix:///podman.sock", "build")
    with pytest.raises(ImageError, match=r"podman's, and there is no podman on PATH"):
        find_builder(podman="unix:///podman.sock", path=str(tmp_path / "nowhere"))


def test_no_builder_is_told_with_what_each_lacks(tmp_path: Path) -> None:
    _program(tmp_path / "a", "docker", NEW)
    with pytest.raises(ImageError, match=r"a/docker: docker 28\.2\.2 without the plug-in buildx"):
        find_builder(path=str(tmp_path / "a"))
    with pytest.raises(ImageError, match="no docker on PATH"):
        find_builder(path=str(tmp_path / "nowhere"))


def test_variables_of_pip_win_over_its_files_and_paths_of_this_machine_stay_here(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("")
    listed = (
        ":env:.find-links='ignored: the variable itself is read'\n"
        "global.constraint='/etc/xdg/pip/constraints.txt'\n"
        "global.extra-index-url='file:///opt/simple https://second.invalid/simple'\n"
        "global.index-url='https://first.invalid/simple'\n"
    )
    environment = {"PIP_INDEX_URL": "https://mine.invalid/simple", "PIP_FIND_LINKS": f"{tmp_path} https://far.invalid"}
    settings = interpreted(listed, environment | {"SSL_CERT_FILE": str(bundle)})
    assert settings.configuration.splitlines() == [
        "[global]",
        "index-url = https://mine.invalid/simple",
        "extra-index-url = https://second.invalid/simple",
    ]
    assert settings.links == (tmp_path,)
    assert settings.certificates == bundle


def test_the_identity_says_which_image_this_is(tmp_path: Path) -> None:
    path = tmp_path / "image.json"
    assert inside_image(path) is None
    fields = {
        "name": "cpu",
        "content_hash": "1",
        "source_commit": "2",
        "base": "b",
        "environment": {},
        "versions": {"torch": "2.13.0"},
    }
    path.write_text(json.dumps(fields))
    found = inside_image(path)
    assert found is not None
    assert (found.name, found.versions["torch"]) == ("cpu", "2.13.0")
    path.write_text("{}")
    with pytest.raises(ImageError, match="is no identity of an image"):
        inside_image(path)


def test_a_shell_is_the_callers_own(tmp_path: Path) -> None:
    _program(tmp_path, "docker", "")
    argv = shell_command("verl-e2e/cpu:1", folder=tmp_path, terminal=False, path=str(tmp_path))
    assert f"--volume={tmp_path}:{tmp_path}" in argv
    assert "--tty" not in argv
    assert argv[-1] == "verl-e2e/cpu:1"
    with pytest.raises(ImageError, match="no docker and no podman"):
        shell_command("verl-e2e/cpu:1", folder=tmp_path, terminal=True, path=str(tmp_path / "nowhere"))
