from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ci.errors import ConfigError
from ci.images import lock
from ci.images.context import content_hash, staged
from ci.images.specification import specification_called, specifications

ROOT = Path(__file__).parents[3]
DIGEST = f"sha256:{'1' * 64}"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what the images are made of."""
    shutil.copytree(ROOT / "containers", tmp_path / "containers")
    for source in ("ci/images/write_identity.py", "ci/rehearsal/requirements.txt"):
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, tmp_path / source)
    return tmp_path


def test_every_image_has_a_reference_and_says_how_far_it_is_trusted() -> None:
    entries = lock.read(ROOT)
    for name, image in lock.locked_images(ROOT).items():
        assert image.digest is not None or image.reference.startswith(f"verl-e2e/{name}:")
        assert image.verified or entries[name].reason


def test_what_is_not_pinned_is_called_by_its_content(copy: Path) -> None:
    before = lock.locked_images(copy)
    (copy / "ci/rehearsal/requirements.txt").write_text("torch==0.0.1\n")
    after = lock.locked_images(copy)
    assert after["cpu"].reference != before["cpu"].reference
    assert after["cuda"] == before["cuda"]


def test_a_pin_is_written_and_read_back(copy: Path) -> None:
    entry = lock.Entry(
        repository="localhost:5000/verl-e2e/cpu",
        digest=DIGEST,
        tag="abc",
        content_hash="abc",
        platforms=("linux/amd64",),
        pinned_at=datetime(2026, 12, 1, tzinfo=UTC),
        verified=True,
        versions={"torch": "2.13.0"},
    )
    others = {name: other for name, other in lock.read(copy).items() if name != "cpu"}
    lock.write(copy, "cpu", entry)
    assert lock.read(copy) == {**others, "cpu": entry}
    image = lock.locked_images(copy)["cpu"]
    assert (image.reference, image.digest, image.verified) == (f"localhost:5000/verl-e2e/cpu@{DIGEST}", DIGEST, True)


def test_a_lock_that_was_edited_is_refused(copy: Path) -> None:
    (copy / lock.LOCK).write_text("cpu: {digest: latest}\n")
    with pytest.raises(ConfigError, match=r"cpu\.digest: String should match .* \(it is 'latest'\)") as caught:
        lock.locked_images(copy)
    assert "inv images.pin" in str(caught.value.hint)


def test_a_missing_input_is_named(copy: Path) -> None:
    (copy / "ci/rehearsal/requirements.txt").unlink()
    with pytest.raises(ConfigError, match=r"lacks an input, ci/rehearsal/requirements\.txt"):
        lock.locked_images(copy)


def test_every_fault_of_images_yaml_is_told(copy: Path) -> None:
    (copy / "containers/images.yaml").write_text("images: {a: {summary: 3}, b: {platforms: [linux/vax]}}\n")
    with pytest.raises(ConfigError) as caught:
        specifications(copy)
    for fault in ("images.a.summary", "images.a.platforms", "images.b.platforms.0", "images.b.base"):
        assert fault in caught.value.message


def test_an_unknown_image_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="known: cpu, cuda, ascend"):
        specification_called("gpu", ROOT)


def test_the_context_has_the_inputs_and_the_wheels_that_are_pinned(tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    wanted = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    for name in (wanted, "torch-2.12.0-cp311-cp311-linux_x86_64.whl", "other-1.0-py3-none-any.whl", "odd.whl"):
        (links / name).write_text("a wheel")
    with staged("cpu", specification_called("cpu", ROOT), ROOT, [links]) as folder:
        found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {"Dockerfile", "requirements.txt", "write_identity.py", f"wheels/{wanted}"}
    assert not folder.exists()


def test_the_hash_stands_for_base_and_arguments_too(copy: Path) -> None:
    specification = specification_called("cpu", copy)
    hashes = {
        content_hash("cpu", changed, copy)
        for changed in (
            specification,
            specification.model_copy(update={"base": specification.base.model_copy(update={"digest": DIGEST})}),
            specification.model_copy(update={"arguments": {"VERL_VERSION": "0.9.0"}}),
            specification.model_copy(update={"summary": "of no consequence"}),
        )
    }
    assert len(hashes) == 3
