"""Bringing verified images to a registry, pinning them there, and asking whether the pins still hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import docker
import docker.errors

from ci.engines import daemon
from ci.errors import ConfigError, ImageError, SuiteError
from ci.images import lock
from ci.images.registry import Repository
from ci.images.specification import Specification, specification_called, specifications
from ci.images.verify import Verification, local_image, verification_of

REGISTRY_VARIABLE = "VERL_E2E_REGISTRY"
_REQUEST_S = 600


def repository_of(name: str, registry: str, environment: Mapping[str, str]) -> Repository:
    """Return where an image is kept: under the registry that is given, or that the environment names.

    Raises:
        ConfigError: nothing names a registry.
    """
    prefix = registry or environment.get(REGISTRY_VARIABLE, "")
    if not prefix:
        raise ConfigError(
            f"nothing says which registry the image {name} belongs to",
            hint=f"--registry HOST/PATH, or {REGISTRY_VARIABLE}; the image lies at HOST/PATH/{lock.LOCAL}/{name}",
        )
    return Repository.parse(f"{prefix.rstrip('/')}/{lock.LOCAL}/{name}")


def push(name: str, root: Path, repository: Repository) -> str:
    """Push the verified image under its content's tag, which is never moved, and return its digest.

    Raises:
        ImageError: it is not here or not verified, the tag is another image's, or the registry refuses.
        NetworkError: the registry does not answer.
    """
    reference = lock.local_reference(name, specification_called(name, root), root)
    tag = lock.content_of(reference)
    with daemon.connect(timeout_s=_REQUEST_S) as client:
        image = local_image(client, name, reference)
        identifier = str(image.id)
        if verification_of(identifier) is None:
            raise ImageError(
                f"the image {reference} was not verified, so it is not pushed", hint=f"`inv images.verify {name}`"
            )
        there = repository.find(tag)
        if there is not None and identifier not in there.identifiers:
            raise ImageError(
                f"{repository}:{tag} is another build of the same inputs, {there.digest}; such a tag never moves",
                hint=f"`inv images.pin {name}` takes the one that is there; or change an input",
            )
        if there is None:
            with daemon.explained(f"pushing {repository}:{tag}", image=f"{repository}:{tag}"):
                image.tag(str(repository), tag=tag)
                _push(client, repository, tag)
            there = repository.manifest(tag)
    return there.digest


def pin(name: str, root: Path, repository: Repository) -> lock.Entry:
    """Resolve the content's tag in the registry, and put its digest into the lock.

    Raises:
        ImageError: the registry does not have it.
        NetworkError: the registry does not answer.
    """
    specification = specification_called(name, root)
    tag = lock.content_of(lock.local_reference(name, specification, root))
    manifest = repository.manifest(tag)
    proofs = [proof for identifier in manifest.identifiers if (proof := verification_of(identifier)) is not None]
    entry = lock.Entry(
        repository=str(repository),
        digest=manifest.digest,
        tag=tag,
        content_hash=tag,
        platforms=manifest.platforms,
        pinned_at=datetime.now(UTC).replace(microsecond=0),
        **_proved(proofs, manifest.platforms, specification),
    )
    lock.write(root, name, entry)
    return entry


def check(root: Path) -> tuple[str, ...]:
    """Return a line for each pin that holds.

    Raises:
        ImageError: with a line for each pin that does not; or nothing is pinned, so that nothing was checked.
    """
    good, dead = [], []
    known = specifications(root)
    for name, entry in lock.read(root).items():
        if entry.repository is None or entry.digest is None:
            continue
        problems = _problems(entry) if name in known else ("containers/images.yaml does not have it",)
        place = f"{name}: {entry.repository}@{entry.digest}"
        dead += [f"  - {place}: {problem}" for problem in problems]
        good += [place] if not problems else []
    if dead:
        count = "1 pin is dead" if len(dead) == 1 else f"{len(dead)} faults of pins"
        raise ImageError("\n".join((count, *dead)), hint="`inv images.push NAME` and `inv images.pin NAME` mend a pin")
    if not good:
        raise ImageError(f"nothing is pinned in {lock.LOCK}", hint="`inv images.push NAME`, then `inv images.pin NAME`")
    return tuple(good)


def _problems(entry: lock.Entry) -> tuple[str, ...]:
    if entry.repository is None or entry.digest is None:
        return ()
    repository = Repository.parse(entry.repository)
    try:
        manifest = repository.manifest(entry.digest)
        tagged = repository.find(entry.tag) if entry.tag else None
    except SuiteError as error:
        return (error.message,)
    problems = []
    if tagged is None:
        problems.append(f"no tag {entry.tag} holds it, so the registry may drop it")
    elif tagged.digest != entry.digest:
        problems.append(f"its tag {entry.tag} was moved to {tagged.digest}")
    if missing := sorted(set(entry.platforms) - set(manifest.platforms)):
        problems.append(f"it has no {' and no '.join(missing)}")
    return tuple(problems)


def _proved(proofs: list[Verification], platforms: tuple[str, ...], specification: Specification) -> dict[str, object]:
    """Return what the lock says of the proof, and what it does not cover: another platform, the real base, devices."""
    base, collective = specification.base.reference, specification.holds.collective
    unproved = sorted(set(platforms) - {proof.platform for proof in proofs})
    facts: dict[str, object] = {"verified": not unproved}
    reasons = [f"this machine has not verified it for {', '.join(unproved)}"] if unproved else []
    if not unproved and (other := sorted({proof.base for proof in proofs} - {base})):
        reasons.append(f"verified as built on {', '.join(other)}, which stands in for {base}")
    if not unproved and collective and not all(proof.ranks for proof in proofs):
        reasons.append(f"verified without a collective over {collective}, on a machine without the devices")
    if reasons:
        facts["reason"] = "; ".join(reasons)
    if proofs:
        facts |= {"base": proofs[0].base, "versions": dict(sorted(proofs[0].versions.items()))}
    return facts


def _push(client: docker.DockerClient, repository: Repository, tag: str) -> None:
    """Follow the engine's answer: an error in the middle of it is a line, no exception."""
    for line in client.api.push(str(repository), tag=tag, stream=True, decode=True):
        if "error" in line:
            raise docker.errors.APIError(str(line["error"]))
