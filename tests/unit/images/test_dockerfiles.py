"""The Dockerfiles name everything exactly; and the lint that says so sees each way not to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci.images.specification import specifications
from tests.unit.images.dockerfile import instructions, problems

ROOT = Path(__file__).parents[3]
NAMES = tuple(specifications(ROOT))
BASE = f"FROM docker.io/library/python:3.12@sha256:{'0' * 64}\n"
COMMIT = "1dda039b9c6311889a9c9a26040677e1254814f9"


@pytest.mark.parametrize("name", NAMES)
def test_hadolint_finds_nothing(name: str) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    dockerfile = ROOT / "containers" / name / "Dockerfile"
    done = subprocess.run((hadolint, dockerfile), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_names_everything_exactly(name: str, tmp_path: Path) -> None:
    folder = ROOT / "containers" / name
    for path in (*folder.iterdir(), *(ROOT / source for source in specifications(ROOT)[name].inputs)):
        shutil.copy(path, tmp_path)
    assert problems((folder / "Dockerfile").read_text(), tmp_path) == ()


@pytest.mark.parametrize("name", NAMES)
def test_has_the_arguments_that_images_yaml_gives_it(name: str) -> None:
    specification = specifications(ROOT)[name]
    parsed = instructions((ROOT / "containers" / name / "Dockerfile").read_text())
    defaults = dict(found.rest.partition("=")[::2] for found in reversed(parsed) if found.name == "ARG")
    expected = specification.base.reference if specification.base.digest else ""
    assert defaults["BASE"] == expected
    for key, value in specification.arguments.items():
        assert defaults[key] == value
    assert {"NAME", "CONTENT_HASH", "SOURCE_COMMIT"} <= set(defaults)


@pytest.mark.parametrize("name", NAMES)
def test_says_what_it_is(name: str) -> None:
    text = (ROOT / "containers" / name / "Dockerfile").read_text()
    for label in ("title", "description", "licenses", "version", "revision", "base.name"):
        assert f"org.opencontainers.image.{label}=" in text
    assert "python3 /write_identity.py" in text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("FROM ubuntu:24.04", "FROM without digest: ubuntu:24.04"),
        ("FROM ubuntu@sha256:" + "0" * 64, "FROM without digest"),
        ("COPY --from=ghcr.io/astral-sh/uv:0.11 /uv /bin/", "COPY from an image without digest"),
        ("RUN git clone https://github.com/NVIDIA/Megatron-LM.git", "git clone takes a branch"),
        ("RUN git fetch https://github.com/NVIDIA/Megatron-LM.git core_v0.18.0", "no commit"),
        ("ARG REF=main\nRUN git fetch https://github.com/verl-project/verl.git ${REF}", "no commit"),
        ("RUN pip install --no-cache-dir git+https://github.com/Ascend/TransferQueue.git@main", "no commit"),
        ("RUN curl -LO https://example.org/tool.tar.gz", "download without checksum"),
        ("ADD https://example.org/tool.tar.gz /opt/", "download without checksum"),
        ("RUN pip install --no-cache-dir torch", "pip install without exact version: torch"),
        ("RUN pip install --no-cache-dir 'torch>=2.11'", "pip install without exact version"),
        ("ARG VERSION\nRUN pip install --no-cache-dir torch==${VERSION}", "pip install without exact version"),
        ("RUN pip install --no-cache-dir --requirement /loose.txt", "loose.txt without exact version: ray>=2"),
        ("RUN pip install torch==2.11.0", "pip's cache stays"),
        ("RUN uv sync --no-cache", "uv sync without --frozen"),
        ("RUN uv sync --frozen", "uv's cache stays"),
        ("RUN apt-get install --yes git", "apt's lists stay"),
        ("ENV PYTHONPATH=/workspace/Megatron-LM", "PYTHONPATH: nothing makes /workspace/Megatron-LM"),
        ("ARG HF_TOKEN=abc", "a secret would stay in the image: ARG HF_TOKEN"),
        ("USER root", "the image starts as root"),
        ("USER 0:0", "the image starts as root"),
    ],
)
def test_the_lint_sees(line: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "loose.txt").write_text("# a comment\nray>=2\n")
    # The last USER counts, and so does the last stage.
    before = "" if line.startswith("FROM") else BASE
    after = "" if line.startswith("USER") else "\nUSER 1000"
    found = problems(f"{before}{line}{after}", tmp_path)
    assert any(one.startswith(problem) for one in found), found


@pytest.mark.parametrize(
    "line",
    [
        f"RUN git fetch https://github.com/verl-project/verl.git {COMMIT}",
        f"ARG REF={COMMIT}\nRUN git fetch https://github.com/verl-project/verl.git ${{REF}}",
        "RUN curl -LO https://example.org/a; echo 'abc  a' | sha256sum --check",
        "RUN pip install --no-cache-dir torch==2.11.0 /workspace/verl",
        "RUN uv sync --frozen --no-cache",
        "COPY Megatron-LM /workspace/Megatron-LM\nENV PYTHONPATH=/workspace/Megatron-LM",
    ],
)
def test_the_lint_lets_pass(line: str, tmp_path: Path) -> None:
    assert problems(f"{BASE}{line}\nUSER 1000", tmp_path) == ()
