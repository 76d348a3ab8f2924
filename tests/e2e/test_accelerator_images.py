"""The cuda and ascend Dockerfiles, built for real as far as reachable registries allow.

What a stage needs from elsewhere is replaced, and everything else is built as it stands: the stages, how sources come
at a commit, the environment out of uv's lock, how Megatron-LM reaches every process, identity, labels and user.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from ci.images.builder import find_builder
from ci.images.pip_settings import pip_settings
from tests.e2e.sessions import ROOT

pytestmark = pytest.mark.timeout(900)
CHECKOUT = Path(__file__).with_name("verl_checkout")
LOCAL_GIT = {
    "FROM system AS sources\n": "FROM system AS sources\nRUN git config --system --add safe.directory '*'\n",
    "--mount=type=secret,id=certificates \\\n    set -eu; \\\n": (
        "--mount=type=secret,id=certificates --mount=type=bind,source=repositories,target=/repositories \\\n"
        "    set -eu; \\\n"
    ),
    "https://github.com/verl-project/verl.git": "/repositories/verl",
    "https://github.com/NVIDIA/Megatron-LM.git": "/repositories/Megatron-LM",
    "https://gitcode.com/Ascend/MindSpeed.git": "/repositories/MindSpeed",
}
REDUCED: Mapping[str, Mapping[str, str]] = {
    "cuda": {
        # NVIDIA's own package source is in its base image alone; ffmpeg is only large.
        ' \\\n        "libnccl2=${NCCL_VERSION}" "libnccl-dev=${NCCL_VERSION}"': "",
        "ffmpeg ": "",
        **{old: new for old, new in LOCAL_GIT.items() if "MindSpeed" not in old},
    },
    "ascend": {
        **LOCAL_GIT,
        # CANN's scripts are in its base image, torch_npu is on Huawei's index, and vLLM builds on them.
        "set +u; . /usr/local/Ascend/ascend-toolkit/set_env.sh; . /usr/local/Ascend/nnal/atb/set_env.sh; set -u; ": "",
        "--requirement /requirements.txt": "six==1.16.0",
        '--no-binary vllm "vllm==0.23.0"': "six==1.16.0",
        '--no-binary vllm-ascend "vllm-ascend==0.23.0.post1"': "six==1.16.0",
        "--no-build-isolation /workspace/verl": "six==1.16.0",
    },
}
"""What is replaced in each Dockerfile, and by what."""
PACKAGES = {"Megatron-LM": "megatron", "MindSpeed": "mindspeed", "verl": "verl"}


def reduced(name: str) -> str:
    text = (ROOT / "containers" / name / "Dockerfile").read_text()
    for old, new in REDUCED[name].items():
        assert old in text, f"what is replaced is not in the Dockerfile any more: {old}"
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def built(name: str, base: str, context: Path) -> Iterator[str]:
    """Build the reduced Dockerfile, and yield the image's tag."""
    context.mkdir()
    (context / "Dockerfile").write_text(reduced(name))
    shutil.copy(ROOT / "ci" / "images" / "write_identity.py", context)
    shutil.copy(ROOT / "containers" / "ascend" / "requirements.txt", context)
    commits = {repository: _repository(context / "repositories" / repository) for repository in PACKAGES}
    arguments = {
        "BASE": base,
        "CONTENT_HASH": "reduced",
        "VERL_COMMIT": commits["verl"],
        "MEGATRON_COMMIT": commits["Megatron-LM"],
        "MINDSPEED_COMMIT": commits["MindSpeed"],
    }
    tag = f"verl-e2e-test:{name}-{secrets.token_hex(4)}"
    settings, builder = pip_settings(dict(os.environ)), find_builder()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as configuration:
        configuration.write(settings.configuration)
        configuration.flush()
        given = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        given += [f"--secret=id=pip,src={configuration.name}"]
        given += [f"--secret=id=certificates,src={settings.certificates}"] if settings.certificates else []
        argv = (*builder.command, "--progress=plain", f"--tag={tag}", *given, str(context))
        done = subprocess.run(
            argv, env={**os.environ, **builder.environment}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr[-5000:]
    client = docker.from_env(timeout=300)
    try:
        yield tag
        client.images.remove(tag, force=True)
    finally:
        client.close()


def _repository(folder: Path) -> str:
    """Make a repository with one package in it, and return its commit, which is not the tip of its branch."""
    package = folder / PACKAGES[folder.name]
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    if folder.name == "verl":
        shutil.copytree(CHECKOUT, folder, dirs_exist_ok=True)
    git = ("git", "-C", str(folder), "-c", "user.name=tests", "-c", "user.email=tests@invalid")
    subprocess.run((*git, "init", "--quiet"), check=True)
    subprocess.run((*git, "config", "uploadpack.allowAnySHA1InWant", "true"), check=True)
    subprocess.run((*git, "add", "--all"), check=True)
    subprocess.run((*git, "commit", "--quiet", "--message=pinned"), check=True)
    pinned = subprocess.run((*git, "rev-parse", "HEAD"), check=True, capture_output=True, text=True).stdout.strip()
    (package / "__init__.py").write_text("raise ImportError('this is not the pinned commit')")
    subprocess.run((*git, "commit", "--quiet", "--all", "--message=later"), check=True)
    return pinned


def says(image: str, *command: str, **options: Any) -> str:
    client = docker.from_env(timeout=300)
    try:
        output: bytes = client.containers.run(image, list(command[1:]), entrypoint=command[0], remove=True, **options)
    finally:
        client.close()
    return output.decode()


LOOK = """
import json, os, pathlib, sys
import {modules}
identity = json.loads(pathlib.Path("/etc/verl-e2e/image.json").read_text())
print(json.dumps({{"identity": identity, "uid": os.getuid(), "prefix": sys.prefix, "six": __import__("six").__version__,
                  "left": [str(path) for path in pathlib.Path("/workspace").rglob(".git")]}}))
"""


@pytest.mark.parametrize(("name", "modules"), [("cuda", "megatron"), ("ascend", "megatron, mindspeed")])
def test_the_stages_build_and_every_process_finds_megatron(
    name: str, modules: str, debian: str, tmp_path: Path
) -> None:
    with built(name, debian, tmp_path / "context") as image:
        # Without PYTHONPATH, as a Ray worker starts.
        found = json.loads(says(image, "python3", "-c", LOOK.format(modules=modules), environment={"PYTHONPATH": ""}))
        assert found["identity"]["name"] == name
        assert found["identity"]["base"] == debian
        assert found["identity"]["versions"]["six"] == found["six"] == "1.16.0"
        assert found["identity"]["environment"]["PYTHONPATH"].startswith("/workspace/Megatron-LM")
        assert (found["uid"], found["prefix"], found["left"]) == (1000, "/opt/verl", [])
        if name == "cuda":
            _assert_uv_takes_what_is_there(image, tmp_path)


def _assert_uv_takes_what_is_there(image: str, tmp_path: Path) -> None:
    """Start Python as verl's scripts do, in a checkout: nothing is downloaded, since there is no network."""
    shutil.copytree(CHECKOUT, tmp_path / "checkout")
    launcher = ("uv", "run", "--frozen", "--all-packages", "--extra", "vllm", "--extra", "megatron", "python3")
    output = says(
        image,
        *launcher,
        "-c",
        "import megatron, six, sys; print(sys.prefix)",
        network_mode="none",
        user="12345:12345",
        environment={"HOME": "/tmp"},
        volumes={str(tmp_path / "checkout"): {"bind": "/checkout", "mode": "ro"}},
        working_dir="/checkout",
    )
    assert output.split()[-1] == "/opt/verl", output
