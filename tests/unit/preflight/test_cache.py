from __future__ import annotations

from pathlib import Path

import pytest

from ci.cache import cache_directory, digest, new_directory, remembered


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERL_E2E_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory("a", "b") == tmp_path / "xdg" / "verl-e2e" / "a" / "b"
    monkeypatch.setenv("VERL_E2E_CACHE", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"


def test_a_folder_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "target"

    def fail() -> None:
        with new_directory(target) as directory:
            (directory / "half").touch()
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert list(tmp_path.glob("*arget*")) == []
    for text in ("first", "second"):  # the second comes late: the first stays
        with new_directory(target) as directory:
            (directory / "file").write_text(text)
    assert (target / "file").read_text() == "first"
    assert list(tmp_path.glob(".target*")) == []


def test_a_digest_keeps_parts_apart() -> None:
    assert digest(("ab", "c")) != digest(("a", "bc"))


def test_an_answer_is_made_once_and_again_when_it_is_broken() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(len(made))
        return made

    assert remembered("kind", "key", make) == [0]
    assert remembered("kind", "key", make) == [0]
    (cache_directory("kind") / "key.json").write_text("{")
    assert remembered("kind", "key", make) == [0, 1]
