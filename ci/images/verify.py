"""Proving, from inside, that an image holds what images.yaml demands; and the memory of which images did."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docker
import docker.errors
from docker.models.images import Image as LocalImage
from pydantic import BaseModel, ConfigDict, ValidationError

from ci.cache import cache_directory, write_whole
from ci.devices.lease import lease
from ci.devices.probe import probe as probe_devices
from ci.engines import daemon
from ci.engines.accelerators import device_options
from ci.errors import ImageError
from ci.images import lock
from ci.images.collective import MARK as COLLECTIVE_MARK
from ci.images.identity import IDENTITY, Identity, parsed
from ci.images.probe import MARK
from ci.images.specification import Holdings, specification_called
from ci.scenarios.model import Accelerator, Target

_PROBE = Path(__file__).with_name("probe.py")
_COLLECTIVE = Path(__file__).with_name("collective.py")
_ACCELERATORS: Mapping[str, Accelerator] = {"nccl": "cuda", "hccl": "npu"}
_CPU_RANKS = 2
_TIME_LIMIT_S = 600
_SHARED_MEMORY = 1 << 30
_TAIL_LINES = 20


class Verification(BaseModel):
    """What was proved of one image, which its id names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    identifier: str
    content_hash: str
    base: str
    """What it was really built on."""
    platform: str
    verified_at: datetime
    versions: Mapping[str, str]
    ranks: int
    """Processes that a collective was run over; 0: none, since this machine lacks the devices."""


def verify(name: str, root: Path) -> Verification:
    """Start the image that was built here, look inside, and remember that it passed.

    Raises:
        ImageError: it is not here, or does not hold what it should: one line for each problem.
    """
    specification = specification_called(name, root)
    reference = lock.local_reference(name, specification, root)
    with daemon.connect(timeout_s=_TIME_LIMIT_S) as client:
        image = local_image(client, name, reference)
        with _devices(specification.holds) as (target, ids):
            verification = examine(client, image, specification.holds, reference=reference, target=target, ids=ids)
    wanted = lock.content_of(reference)
    if verification.content_hash != wanted:
        raise ImageError(
            f"the image {reference} says it was built from {verification.content_hash}",
            hint=f"`docker image rm {reference}`, then `inv images.build {name}`",
        )
    write_whole(_record(verification.identifier), verification.model_dump_json(indent=1))
    return verification


@contextlib.contextmanager
def _devices(holds: Holdings) -> Iterator[tuple[Target, tuple[int, ...]]]:
    """Lease the free devices that the image's collective runs on; none where it needs none, or there are none."""
    kind: Accelerator | None = _ACCELERATORS.get(holds.collective or "")
    free = [device.id for device in probe_devices() if device.kind == kind and not device.busy_by]
    if kind is None or not free:
        yield "cpu", ()
        return
    with lease(kind, free, len(free), holder="inv images.verify") as ids:
        yield kind, ids


def examine(
    client: docker.DockerClient,
    image: LocalImage,
    holds: Holdings,
    *,
    reference: str,
    target: Target = "cpu",
    ids: tuple[int, ...] = (),
) -> Verification:
    """Return what an image proved of itself, its collective on the devices with these ids.

    Raises:
        ImageError: with every problem found.
    """
    problems: list[str] = []
    if str(image.attrs["Config"].get("User") or "0").split(":")[0] in {"0", "root"}:
        problems.append("user: the image starts as root")
    demands = json.dumps(holds.model_dump(mode="json"))
    output = _run(client, image, ("python3", "-c", _PROBE.read_text(encoding="utf-8"), demands), reference)
    lines = [line for line in output.splitlines() if line.startswith(MARK)]
    if not lines:
        tail = "\n".join(output.splitlines()[-_TAIL_LINES:])
        raise ImageError(f"the image {reference} could not be looked into:\n{tail}", hint="it needs a python3 on PATH")
    found = json.loads(lines[-1].removeprefix(MARK))
    problems += [problem for problem in found["problems"] if problem not in problems]
    ranks = _CPU_RANKS if holds.collective == "gloo" else len(ids)
    if ranks and holds.collective is not None:
        argv = ("python3", "-c", _COLLECTIVE.read_text(encoding="utf-8"), holds.collective, str(ranks))
        answer = _run(client, image, argv, reference, **device_options(target, ids))
        problems += [f"collective: {problem}" for problem in _collective_problems(answer)]
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ImageError(
            "\n".join(
                (f"the image {reference} is not what images.yaml demands: {count}", *map("  - {}".format, problems))
            ),
            hint="mend its Dockerfile or containers/images.yaml, and build it again",
        )
    identity = identity_of(client, image, reference)
    return Verification(
        identifier=str(image.id),
        content_hash=identity.content_hash,
        base=identity.base,
        platform=f"{image.attrs['Os']}/{image.attrs['Architecture']}",
        verified_at=datetime.now(UTC),
        versions=found["versions"],
        ranks=ranks,
    )


def _collective_problems(answer: str) -> Iterator[str]:
    said = [line.removeprefix(COLLECTIVE_MARK) for line in answer.splitlines() if line.startswith(COLLECTIVE_MARK)]
    if not said:
        yield (answer.strip().splitlines() or ["it says nothing"])[-1]
    elif said[-1]:
        yield said[-1]


def identity_of(client: docker.DockerClient, image: LocalImage, reference: str) -> Identity:
    """Return what an image says of itself.

    Raises:
        ImageError: it says nothing that could be understood.
    """
    with daemon.explained(f"looking into the image {reference}", image=reference):
        container = client.containers.create(str(image.id), entrypoint=["/"], labels={"verl-e2e": "verify"})
        try:
            chunks, _ = container.get_archive(str(IDENTITY))
            archive = io.BytesIO(b"".join(chunks))
        except docker.errors.NotFound as error:
            raise ImageError(
                f"the image {reference} has no {IDENTITY}", hint="`inv images.build` makes one that has"
            ) from error
        finally:
            container.remove(force=True)
    with tarfile.open(fileobj=archive) as tar:
        file = tar.extractfile(IDENTITY.name)
        text = file.read().decode("utf-8", "replace") if file is not None else ""
    return parsed(text, where=f"{IDENTITY} of {reference}")


def verification_of(identifier: str) -> Verification | None:
    """Return what was proved of the image with this id, or None where nothing was, or not on this machine."""
    try:
        return Verification.model_validate_json(_record(identifier).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError):
        return None


def local_image(client: docker.DockerClient, name: str, reference: str) -> LocalImage:
    """Return an image of the engine.

    Raises:
        ImageError: it is not there.
    """
    with daemon.explained(f"looking for the image {reference}", image=reference):
        try:
            return client.images.get(reference)
        except docker.errors.ImageNotFound as error:
            raise ImageError(
                f"the image {reference} is not on this machine", hint=f"`inv images.build {name}`"
            ) from error


def _record(identifier: str) -> Path:
    return cache_directory("verified") / f"{identifier.replace(':', '-')}.json"


def _run(client: docker.DockerClient, image: LocalImage, argv: tuple[str, ...], reference: str, **options: Any) -> str:
    """Return what a command prints in a container without a network, which is removed whatever happens."""
    with daemon.explained(f"looking into the image {reference}", image=reference):
        container = client.containers.create(
            str(image.id),
            entrypoint=list(argv[:1]),
            command=list(argv[1:]),
            environment={"HOME": "/tmp"},  # noqa: S108  # inside the container
            network_mode="none",
            shm_size=_SHARED_MEMORY,
            init=True,
            labels={"verl-e2e": "verify"},
            **options,
        )
        try:
            container.start()
            container.wait(timeout=_TIME_LIMIT_S)
            # Warnings of libraries go to stderr; they are wanted where there is no answer.
            return container.logs(stdout=True, stderr=True).decode("utf-8", "replace")
        finally:
            container.remove(force=True)
