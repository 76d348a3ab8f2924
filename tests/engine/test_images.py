"""Images with a real engine and a real registry: built, proved, pushed, pinned, and each way in which that can fail."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import yaml

from ci.engines import images
from ci.errors import ConfigError, ImageError, NetworkError
from ci.images import lock, publish
from ci.images.difference import Change, difference
from ci.images.leftovers import leftovers
from ci.images.registry import Repository
from ci.images.verify import verify
from tests.engine import python_image
from tests.engine.images.registry import PASSWORD, USER, Registry, served
from tests.engine.images.repository import SITE, SUITE, SmallRepository, small_repository

IDENTITY_ANEW = (
    "ARG CONTENT_HASH",
    "RUN --mount=type=bind,source=write_identity.py,target=/write_identity.py \\",
    "    import os, runpy; \\",
    '    runpy.run_path("/write_identity.py")["main"](["tiny", os.environ["CONTENT_HASH"], "unknown", "a base"])',
)


@pytest.fixture
def small(
    tmp_path: Path, image: str, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SmallRepository]:
    monkeypatch.setenv("VERL_E2E_CACHE", str(tmp_path / "cache"))
    repository = small_repository(tmp_path / "repository", image)
    # Otherwise the builder would answer from the images of earlier tests.
    (repository.folder / "salt").write_text(secrets.token_hex(8))
    yield repository
    for found in client.images.list(filters={"label": "verl-e2e.test=tiny"}):
        client.images.remove(str(found.id), force=True)


@pytest.fixture
def other_base(small: SmallRepository, client: docker.DockerClient) -> Iterator[SmallRepository]:
    """The same repository, built on what is the same base by another name."""
    tag = f"other-{secrets.token_hex(4)}"
    client.images.get(small.base).tag("verl-e2e-test", tag=tag)
    yield SmallRepository(root=small.root, base=f"verl-e2e-test:{tag}")
    client.images.remove(f"verl-e2e-test:{tag}")


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with served(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture
def place(registry: Registry) -> Repository:
    """A repository of the registry that nothing was pushed to."""
    return Repository.parse(f"{registry.host}/{secrets.token_hex(4)}/verl-e2e/tiny")


def test_unchanged_inputs_build_nothing(small: SmallRepository) -> None:
    first = small.build()
    started = time.monotonic()
    again = small.build()
    assert (first.reused, again.reused) == (False, True)
    assert again.identifier == first.identifier
    assert time.monotonic() - started < 2
    (small.root / "README.md").write_text("a change that is none of the image's business")
    assert small.build().reused
    (small.folder / "Dockerfile").write_text(f"# changed\n{(small.folder / 'Dockerfile').read_text()}")
    assert small.build().reference != first.reference


def test_another_base_is_another_image(
    small: SmallRepository, other_base: SmallRepository, client: docker.DockerClient
) -> None:
    small.build()
    built = other_base.build()
    assert not built.reused
    assert client.images.get(built.reference).labels["org.opencontainers.image.base.name"] == other_base.base


def test_secrets_and_links_of_the_machine_stay_out(
    small: SmallRepository, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://somebody:hush@index.invalid/simple")
    small.append(
        "USER 0:0",
        "RUN --mount=type=secret,id=pip,required=true \\",
        "    assert 'index.invalid' in open('/run/secrets/pip').read()",
        "USER 1000:1000",
    )
    built = small.build()
    assert "hush" not in json.dumps(client.images.get(built.reference).history())
    left = client.containers.run(
        built.reference,
        ["-c", "import os; print(os.path.exists('/run/secrets/pip'))"],
        entrypoint="python3",
        remove=True,
    )
    assert left.strip() == b"False"


def test_a_base_without_digest_is_not_built_on(small: SmallRepository) -> None:
    from ci.images.build import build

    with pytest.raises(ConfigError, match="no digest of its base"):
        build("tiny", small.root)


def test_a_failed_build_says_who_built(small: SmallRepository) -> None:
    small.append("RUN raise SystemExit(3)")
    with pytest.raises(ImageError, match=r"was not built: \S*(docker|podman) .*ended with"):
        small.build()


def test_a_good_image_is_verified(small: SmallRepository) -> None:
    small.build()
    proof = verify("tiny", small.root)
    assert proof.versions["torch"] == "2.0.0+cpu"
    assert proof.base == small.base


def test_what_was_not_built_cannot_be_verified(small: SmallRepository) -> None:
    with pytest.raises(ImageError, match="is not on this machine") as caught:
        verify("tiny", small.root)
    assert caught.value.hint == "`inv images.build tiny`"


def _spoil_missing(small: SmallRepository) -> None:
    small.holds(versions={"torch": "2.0.0", "verl": "0.9.1"})


def _spoil_version(small: SmallRepository) -> None:
    small.holds(versions={"torch": "2.1.0"})


def _spoil_replaced(small: SmallRepository) -> None:
    # As a later `pip install` does: after the image was named, another torch lies over the first.
    small.package("torch", "1.0.0", folder="late")
    small.append(
        "USER 0:0",
        f"RUN import shutil; shutil.rmtree('{SITE}/torch-2.0.0+cpu.dist-info')",
        f"COPY late {SITE}",
        "USER 1000:1000",
    )


def _spoil_other_copy(small: SmallRepository) -> None:
    small.package("torch", "1.9.0", folder="shadow")
    small.append("COPY shadow/torch.py /shadow/torch.py", f"ENV PYTHONPATH=/shadow:{SITE}")


def _spoil_path(small: SmallRepository) -> None:
    small.append("ENV PYTHONPATH=/workspace/Megatron-LM")


def _spoil_cache(small: SmallRepository) -> None:
    (small.folder / "archive").write_text("a wheel")
    small.append("COPY archive /opt/uv-cache/archive", "ENV UV_CACHE_DIR=/opt/uv-cache")


def _spoil_identity(small: SmallRepository) -> None:
    small.append("USER 0:0", "RUN import os; os.remove('/etc/verl-e2e/image.json')", "USER 1000:1000")


def _spoil_user(small: SmallRepository) -> None:
    small.append("USER 0:0")


def _spoil_import(small: SmallRepository) -> None:
    small.holds(imports=["transfer_queue"])


def _spoil_program(small: SmallRepository) -> None:
    small.holds(programs=["nvcc"])


def _spoil_collective(small: SmallRepository) -> None:
    small.holds(collective="gloo")  # its torch is a file with a version


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_spoil_missing, "package: verl 0.9.1 is missing"),
        (_spoil_version, r"version: torch is 2.0.0\+cpu, not 2.1.0"),
        (_spoil_replaced, r"identity: torch was 2.0.0\+cpu when the image was built, and is 1.0.0"),
        (_spoil_other_copy, r"import: torch says 1.9.0, and 2.0.0\+cpu is what is installed"),
        (_spoil_path, "PYTHONPATH: there is no /workspace/Megatron-LM"),
        (_spoil_cache, "cache: /opt/uv-cache was left"),
        (_spoil_identity, "identity: /etc/verl-e2e/image.json does not say"),
        (_spoil_user, "user: the image starts as root"),
        (_spoil_import, "import: transfer_queue: ModuleNotFoundError"),
        (_spoil_program, "program: there is no nvcc"),
        (_spoil_collective, "collective: rank 0: ModuleNotFoundError.*; rank 1: ModuleNotFoundError"),
    ],
    ids=lambda value: value.__name__.removeprefix("_spoil_") if callable(value) else "",
)
def test_verify_catches(spoil: object, problem: str, small: SmallRepository) -> None:
    assert callable(spoil)
    spoil(small)
    small.build()
    with pytest.raises(ImageError, match=problem):
        verify("tiny", small.root)
    with pytest.raises(ImageError, match="was not verified, so it is not pushed"):
        publish.push("tiny", small.root, Repository.parse("127.0.0.1:1/verl-e2e/tiny"))


def test_verify_asks_a_ray_worker_and_not_only_the_driver(small: SmallRepository) -> None:
    site = small.folder / "ray"
    requirements = (SUITE / "ci" / "rehearsal" / "requirements.txt").read_text()
    ray = next(line for line in requirements.splitlines() if line.startswith("ray=="))
    subprocess.run(
        (sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--target", str(site), ray), check=True
    )
    _copy_libraries(site, small.folder / "libraries")
    small.package("megatron", "0.18.0", folder="megatron")
    small.append(
        "COPY libraries /",
        f"COPY ray {SITE}",
        "COPY megatron /workspace/Megatron-LM",
        f"ENV PYTHONPATH=/workspace/Megatron-LM:{SITE}",
    )
    small.append("USER 0:0", *IDENTITY_ANEW, "USER 1000:1000")
    small.holds(imports=["megatron"], worker_imports=["torch", "megatron"])
    small.build()
    with pytest.raises(ImageError, match="1 problem\n  - ray worker: megatron: ModuleNotFoundError"):
        verify("tiny", small.root)


def _copy_libraries(site: Path, target: Path) -> None:
    """Copy what ray's programs are linked to, which the small image lacks."""
    programs = [
        *(site / "ray").rglob("*.so"),
        site / "ray/core/src/ray/raylet/raylet",
        site / "ray/core/src/ray/gcs/gcs_server",
    ]
    # Named at runtime alone, by ctypes.
    late = {f"/lib/{sysconfig.get_config_var('MULTIARCH')}/{name}" for name in ("libpthread.so.0", "librt.so.1")}
    for path in {*python_image._libraries(programs), *late}:
        place = target / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)


def _published(small: SmallRepository, place: Repository) -> lock.Entry:
    small.build()
    verify("tiny", small.root)
    publish.push("tiny", small.root, place)
    return publish.pin("tiny", small.root, place)


def test_a_pin_is_what_a_run_starts(small: SmallRepository, place: Repository, client: docker.DockerClient) -> None:
    entry = _published(small, place)
    assert entry.verified
    assert str(entry.reason).startswith(f"verified as built on {small.base}, which stands in for ")
    assert "collective" not in str(entry.reason)
    assert entry.versions["torch"] == "2.0.0+cpu"
    assert lock.read(small.root)["tiny"] == entry
    locked = lock.locked_images(small.root)["tiny"]
    assert (locked.reference, locked.digest) == (f"{place}@{entry.digest}", entry.digest)
    assert (locked.verified, locked.doubts) == (True, ())
    client.images.remove(small.build().identifier, force=True)
    _, digest = images.prepare(client, locked, stop=lambda: False)
    assert digest == entry.digest
    assert publish.check(small.root) == (f"tiny: {place}@{entry.digest}",)


def test_pushing_twice_moves_nothing(small: SmallRepository, place: Repository) -> None:
    entry = _published(small, place)
    assert publish.push("tiny", small.root, place) == entry.digest


def test_the_tag_of_another_build_is_not_moved(
    small: SmallRepository, other_base: SmallRepository, place: Repository
) -> None:
    entry = _published(small, place)
    other_base.build()
    verify("tiny", small.root)
    with pytest.raises(ImageError, match="such a tag never moves"):
        publish.push("tiny", small.root, place)
    assert publish.check(small.root) == (f"tiny: {place}@{entry.digest}",)


def test_pinned_elsewhere_is_not_verified_here(
    small: SmallRepository, place: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _published(small, place)
    monkeypatch.setenv("VERL_E2E_CACHE", str(tmp_path / "another machine"))
    entry = publish.pin("tiny", small.root, place)
    assert not entry.verified
    assert "has not verified it" in str(entry.reason)


def test_a_lost_manifest_is_found(small: SmallRepository, place: Repository, registry: Registry) -> None:
    entry = _published(small, place)
    registry.delete(place.path, str(entry.digest))
    with pytest.raises(ImageError, match="1 pin is dead") as caught:
        publish.check(small.root)
    assert f"tiny: {place}@{entry.digest}: {registry.host} has no" in caught.value.message


def test_a_moved_tag_is_found(small: SmallRepository, place: Repository, client: docker.DockerClient) -> None:
    entry = _published(small, place)
    client.images.get(small.base).tag(str(place), tag=str(entry.tag))
    client.images.push(str(place), tag=str(entry.tag))
    client.images.remove(f"{place}:{entry.tag}")
    with pytest.raises(ImageError, match=r"its tag [0-9a-f]+ was moved to sha256:"):
        publish.check(small.root)
    # What a run starts is still the image that was proved.
    client.images.remove(small.build().identifier, force=True)
    _, digest = images.prepare(client, lock.locked_images(small.root)["tiny"], stop=lambda: False)
    assert digest == entry.digest


def test_a_platform_that_is_missing_is_found(small: SmallRepository, place: Repository) -> None:
    entry = _published(small, place)
    lock.write(small.root, "tiny", entry.model_copy(update={"platforms": (*entry.platforms, "linux/riscv64")}))
    with pytest.raises(ImageError, match="it has no linux/riscv64"):
        publish.check(small.root)


def test_checking_nothing_is_no_success(small: SmallRepository) -> None:
    with pytest.raises(ImageError, match="nothing is pinned"):
        publish.check(small.root)


def test_a_registry_that_is_down_is_the_networks_fault(small: SmallRepository) -> None:
    small.build()
    verify("tiny", small.root)
    with pytest.raises(NetworkError, match=r"the registry 127\.0\.0\.1:1 does not answer"):
        publish.push("tiny", small.root, Repository.parse("127.0.0.1:1/verl-e2e/tiny"))


def test_credentials_of_docker_login_open_a_registry(
    small: SmallRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.build()
    verify("tiny", small.root)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    configuration = tmp_path / "docker" / "config.json"
    configuration.parent.mkdir()
    with served(tmp_path / "closed", password=True) as closed:
        place = Repository.parse(f"{closed.host}/verl-e2e/tiny")
        with pytest.raises(ImageError, match="refuses to show") as caught:
            publish.push("tiny", small.root, place)
        assert f"docker login {closed.host}" in str(caught.value.hint)
        pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        configuration.write_text(json.dumps({"auths": {closed.host: {"auth": pair}}}))
        digest = publish.push("tiny", small.root, place)
        assert publish.pin("tiny", small.root, place).digest == digest


def test_no_engine_is_said(tmp_path: Path) -> None:
    ended = subprocess.run(
        (sys.executable, "-m", "invoke", "images.build", "cpu"),
        cwd=SUITE,
        env=os.environ | {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == ImageError.exit_code
    assert "no Docker engine answers" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_lock_is_text_that_says_who_writes_it(small: SmallRepository, place: Repository) -> None:
    _published(small, place)
    text = (small.root / lock.LOCK).read_text()
    assert text.startswith("# Written by `inv images.pin NAME`")
    assert yaml.safe_load(text)["tiny"]["verified"] is True


def test_a_difference_names_what_changed(small: SmallRepository) -> None:
    before = small.build()
    small.package("ray", "2.60.0")
    shutil.rmtree(small.folder / "site" / "torch-2.0.0+cpu.dist-info")
    small.package("torch", "2.1.0")
    found = difference(before.reference, small.build().reference)
    assert found.packages == (
        Change(package="ray", before=None, after="2.60.0"),
        Change(package="torch", before="2.0.0+cpu", after="2.1.0"),
    )
    assert all(sum(layer.size for layer in layers) > 50_000_000 for layers in found.layers)


def test_pruning_removes_other_contents_and_keeps_what_is_current(
    small: SmallRepository, client: docker.DockerClient
) -> None:
    old = small.build()
    small.append("LABEL changed=yes")
    current = small.build()
    assert leftovers(small.root, remove=False) == (old.reference,)
    assert client.images.get(old.reference).id == old.identifier
    assert leftovers(small.root, remove=True) == (old.reference,)
    assert leftovers(small.root, remove=True) == ()
    assert client.images.get(current.reference).id == current.identifier
