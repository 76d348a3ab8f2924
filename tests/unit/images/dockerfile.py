"""What hadolint cannot see in a Dockerfile: whatever could be another thing tomorrow, or is not there at all."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_DIGEST = re.compile(r"\S+:[\w.-]+@sha256:[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_REPOSITORY = re.compile(r"(https://\S+\.git)(?:@|\s+)?\"?([^\s\";]*)")
_DOWNLOAD = re.compile(r"\b(?:curl|wget)\b")
_SECRET = re.compile(r"token|password|secret|credential", re.IGNORECASE)
_PIP = re.compile(r"\bpip3? install\b([^;&|]*)")
_WITH_VALUE = {
    "--index-url",
    "--extra-index-url",
    "--find-links",
    "--constraint",
    "--no-binary",
    "--target",
    "--requirement",
}


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction, its continued lines joined and comments left out."""

    name: str
    rest: str


def instructions(text: str) -> tuple[Instruction, ...]:
    """Return the instructions of a Dockerfile."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    pairs = (line.split(None, 1) for line in joined.splitlines())
    return tuple(Instruction(name=pair[0].upper(), rest=pair[1].strip()) for pair in pairs)


def problems(text: str, folder: Path) -> tuple[str, ...]:
    """Return what is wrong with a Dockerfile; files that it installs from are looked up in the folder."""
    parsed = instructions(text)
    arguments = dict(
        part.partition("=")[::2] for found in parsed if found.name == "ARG" for part in shlex.split(found.rest)
    )
    return (
        *_bases(parsed, arguments),
        *(problem for found in parsed if found.name == "RUN" for problem in _command(found.rest, arguments, folder)),
        *_downloads(parsed),
        *_paths(parsed),
        *_secrets(parsed),
        *_user(parsed),
    )


def _resolved(text: str, arguments: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: arguments.get(found[1], ""), text)


def _bases(parsed: tuple[Instruction, ...], arguments: Mapping[str, str]) -> Iterator[str]:
    stages: set[str] = set()
    for found in parsed:
        words = found.rest.split()
        if found.name == "FROM":
            base = _resolved(words[0], arguments)
            # An argument without a default cannot drift: the build fails without a value.
            if base and base not in stages and not _DIGEST.fullmatch(base):
                yield f"FROM without digest: {base}"
            if len(words) > 2:
                stages.add(words[2])
        for word in words:
            source = word.removeprefix("--from=")
            if found.name == "COPY" and source != word and source not in stages and not _DIGEST.fullmatch(source):
                yield f"COPY from an image without digest: {source}"


def _command(command: str, arguments: Mapping[str, str], folder: Path) -> Iterator[str]:
    if re.search(r"\bgit clone\b", command):
        yield f"git clone takes a branch or tag, which move: {command}"
    for repository, reference in _REPOSITORY.findall(command):
        if not _COMMIT.fullmatch(_resolved(reference, arguments)):
            yield f"no commit: {repository} {reference}"
    if _DOWNLOAD.search(command) and "sha256sum --check" not in command and "sha256sum -c" not in command:
        yield f"download without checksum: {command}"
    for words in _PIP.findall(command):
        yield from _packages(words, arguments, folder)
    if re.search(r"\buv sync\b", command) and "--frozen" not in command:
        yield f"uv sync without --frozen locks anew: {command}"
    if "apt-get install" in command and "rm -rf /var/lib/apt/lists/*" not in command:
        yield f"apt's lists stay in the layer: {command}"
    kept_out = "PIP_NO_CACHE_DIR=1" in command
    if not kept_out and any("--no-cache-dir" not in words for words in _PIP.findall(command)):
        yield f"pip's cache stays in the layer: {command}"
    if re.search(r"\buv sync\b", command) and "--no-cache" not in command:
        yield f"uv's cache stays in the layer: {command}"


def _packages(words: str, arguments: Mapping[str, str], folder: Path) -> Iterator[str]:
    rest = iter(shlex.split(re.sub(r"\$\([^)]*==[^)]*\)", "from-a-pin==0", words)))
    for word in rest:
        if word in {"--requirement", "-r"}:
            yield from _requirements(folder, Path(next(rest)).name)
        elif word in _WITH_VALUE:
            next(rest)
        elif word.startswith(("-", "/", ".")):
            continue
        else:
            version = _resolved(word, arguments).partition("==")[2]
            if not re.fullmatch(r"[0-9][\w.+]*", version):
                yield f"pip install without exact version: {word}"


def _requirements(folder: Path, name: str) -> Iterator[str]:
    for line in (folder / name).read_text().splitlines():
        if line and not line.startswith("#") and not re.fullmatch(r"[\w.-]+==[0-9][\w.+]*", line):
            yield f"{name} without exact version: {line}"


def _downloads(parsed: tuple[Instruction, ...]) -> Iterator[str]:
    for found in parsed:
        if found.name == "ADD" and "://" in found.rest and "--checksum=" not in found.rest:
            yield f"download without checksum: {found.rest}"


def _paths(parsed: tuple[Instruction, ...]) -> Iterator[str]:
    """Name folders on PYTHONPATH that the last stage does not make."""
    last = max(number for number, found in enumerate(parsed) if found.name == "FROM")
    stage = parsed[last:]
    made = {found.rest.split()[-1] for found in stage if found.name in {"COPY", "ADD", "WORKDIR"}}
    made |= {word for found in stage if found.name == "RUN" for word in re.findall(r"mkdir (?:-p )?(\S+)", found.rest)}
    for found in stage:
        if found.name == "ENV":
            for path in (
                value.partition("=")[2] for value in shlex.split(found.rest) if value.startswith("PYTHONPATH=")
            ):
                for entry in path.split(":"):
                    if entry.startswith("/") and entry not in made:
                        yield f"PYTHONPATH: nothing makes {entry}"


def _secrets(parsed: tuple[Instruction, ...]) -> Iterator[str]:
    for found in parsed:
        if found.name in {"ARG", "ENV"} and _SECRET.search(found.rest.partition("=")[0]):
            yield f"a secret would stay in the image: {found.name} {found.rest.partition('=')[0]}"


def _user(parsed: tuple[Instruction, ...]) -> Iterator[str]:
    users = [found.rest for found in parsed if found.name == "USER"]
    if not users or users[-1].split(":")[0] in {"0", "root"}:
        yield "the image starts as root"
