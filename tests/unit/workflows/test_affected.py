from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ci.errors import ConfigError
from ci.scenarios.catalogue import load
from ci.workflows import affected
from ci.workflows.affected import choose, main
from ci.workflows.changes import changed_since, listed, tracked
from ci.workflows.paths import PathFilter
from ci.workflows.triggers import dead_triggers, patterns_of


def _git(repository: Path, *arguments: str) -> None:
    author = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(("git", "-C", str(repository), *author, *arguments), check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "-q", "-b", "main")
    for name in ("kept.py", "deleted.py", "moved.py", "folder/ä b.py", "edited.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name}\n" * 20)
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-qm", "first")
    _git(tmp_path, "checkout", "-qb", "change")
    return tmp_path


def test_renames_and_deletions_and_the_working_tree_count(repository: Path) -> None:
    _git(repository, "mv", "moved.py", "folder/moved.py")
    _git(repository, "rm", "-q", "deleted.py")
    (repository / "folder" / "ä b.py").write_text("changed")
    _git(repository, "commit", "-qam", "second")
    (repository / "edited.py").write_text("not committed")
    (repository / "folder" / "new.py").write_text("not even added")
    expected = frozenset({"moved.py", "folder/moved.py", "deleted.py", "folder/ä b.py", "edited.py", "folder/new.py"})
    assert changed_since("main", repository) == expected
    assert changed_since("main", repository / "folder") == expected  # paths are those of the whole repository


def test_what_the_base_got_since_is_no_part_of_the_change(repository: Path) -> None:
    _git(repository, "checkout", "-q", "main")
    (repository / "kept.py").write_text("main went on")
    _git(repository, "commit", "-qam", "on main")
    _git(repository, "checkout", "-q", "change")
    assert changed_since("main", repository) == frozenset()


def test_no_common_history_is_unknown(repository: Path) -> None:
    _git(repository, "checkout", "-q", "--orphan", "alone")
    _git(repository, "commit", "-qm", "alone")
    assert changed_since("main", repository) is None


@pytest.mark.parametrize("reference", ["nowhere", "--output=stolen"])
def test_a_commit_git_does_not_know_is_refused(repository: Path, reference: str) -> None:
    with pytest.raises(ConfigError, match="git knows no commit"):
        changed_since(reference, repository)


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no git repository"):
        changed_since("main", tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.py\n./b.py\r\n\n", {"a.py", "b.py"}),
        ("a b.py\0c\nd.py\0", {"a b.py", "c\nd.py"}),
        ("M\ta.py\nR087\told.py\tnew.py\nD\tgone.py\n", {"a.py", "old.py", "new.py", "gone.py"}),
        ('"folder/\\303\\244 b.py"\n"a\\tb\\"c"', {"folder/ä b.py", 'a\tb"c'}),
        ("", set()),
    ],
)
def test_lists_of_files_as_people_and_git_write_them(text: str, expected: set[str]) -> None:
    assert listed(text) == expected


def test_an_unknown_change_touches_everything() -> None:
    filters = {"one": PathFilter.of(["a"]), "two": PathFilter.of(["b"])}
    assert [choice.touched for choice in choose(filters, None)] == [True, True]
    assert [choice.touched for choice in choose(filters, [])] == [False, False]


def test_each_choice_says_why() -> None:
    filters = {"one": PathFilter.of(["verl/**", "!verl/docs/**"])}
    assert choose(filters, ["verl/a.py", "verl/b.py"])[0].because == "verl/a.py, by `verl/**`, and 1 more"
    assert choose(filters, ["verl/docs/a.md"])[0].because == "verl/docs/a.md is taken out by `!verl/docs/**`"
    assert choose(filters, ["setup.py"])[0].because == "none of its patterns matches any of 1 files"


def _nothing(name: str, _words: Sequence[str]) -> None:
    pytest.fail(f"{name} was run, and nobody asked for it")


def _said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    *words: str,
    run: Callable[[str, Sequence[str]], None] = _nothing,
) -> list[str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    main(words, run)
    return capsys.readouterr().out.split()


def test_prints_sessions_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _said(monkeypatch, capsys, "docs/index.rst\n") == []
    touched = _said(monkeypatch, capsys, "tests/special_e2e/run_v1_separate_async_opd.sh\n", "--explain")
    assert touched == ["e2e_opd"]


def test_the_suites_own_files_count(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    everything = [f"e2e_{name}" for name in load()]
    assert _said(monkeypatch, capsys, "containers/images.lock") == everything
    assert _said(monkeypatch, capsys, "ci/runs/verdict.py") == everything
    assert _said(monkeypatch, capsys, "ci/something/that/came/later.json") == everything
    assert _said(monkeypatch, capsys, "ci/scenarios/genrm.yaml") == ["e2e_genrm"]
    assert _said(monkeypatch, capsys, "ci/scenarios/bases/ascend.yaml") == ["e2e_fsdp2_ascend", "e2e_megatron_ascend"]
    assert _said(monkeypatch, capsys, "containers/ascend/Dockerfile") == ["e2e_fsdp2_ascend", "e2e_megatron_ascend"]
    assert _said(monkeypatch, capsys, "ci/coverage/waivers.yaml") == []


def test_runs_each_and_fails_with_the_first_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[str, Sequence[str]]] = []

    def run(name: str, words: Sequence[str]) -> None:
        started.append((name, words))
        if name == "fsdp2_ascend":
            raise SystemExit(11)

    with pytest.raises(SystemExit) as ended:
        _said(monkeypatch, capsys, "ci/scenarios/bases/ascend.yaml", "--run", "--target", "npu", run=run)
    assert started == [("fsdp2_ascend", ["--target", "npu"]), ("megatron_ascend", ["--target", "npu"])]
    assert ended.value.code == 11


def test_a_change_of_a_checkout_is_read_from_git(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "verl" / "trainer").mkdir(parents=True)
    (repository / "verl" / "trainer" / "main_ppo.py").write_text("")
    assert _said(monkeypatch, capsys, "", "--base", "main", "--verl", str(repository)) == [f"e2e_{n}" for n in load()]
    monkeypatch.setattr(affected, "changed_since", lambda *_: None)
    assert _said(monkeypatch, capsys, "", "--base", "main", "--verl", str(repository)) == [f"e2e_{n}" for n in load()]


def test_refuses_options_it_does_not_know() -> None:
    with pytest.raises(ConfigError, match="unknown option `--bse`"):
        main(["--bse", "main"], _nothing)
    with pytest.raises(ConfigError, match="expected one argument"):
        main(["--base"], _nothing)


def test_every_pattern_of_the_catalogue_is_one_github_takes() -> None:
    for name, scenario in load().items():
        assert PathFilter.of(patterns_of(name, scenario)).patterns


def test_a_trigger_that_matches_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "protocol.py").write_text("")
    files = tracked(tmp_path)
    assert files == ("verl/protocol.py",)
    found = list(dead_triggers({"opd": load()["opd"]}, files))
    assert "e2e_opd: triggers: `verl/models/**` matches no file of this verl" in found
    assert not [line for line in found if "`verl/protocol.py`" in line]
