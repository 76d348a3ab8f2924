"""A scenario in quarantine is valid until its date, and says why, where and whose it is."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ci.errors import ConfigError
from ci.scenarios.catalogue import load
from ci.scenarios.documents import DIRECTORY
from ci.scenarios.resolution import resolve

TODAY = datetime.now(UTC).date()
VALID = {
    "reason": "hangs in one of four runs",
    "link": "https://github.com/verl-project/verl/issues/1",
    "owner": "somebody",
    "until": (TODAY + timedelta(days=1)).isoformat(),
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("*.py", "__pycache__")
    return Path(shutil.copytree(DIRECTORY, tmp_path / "scenarios", ignore=ignored))


def put_in_quarantine(directory: Path, fields: dict[str, str]) -> None:
    lines = "".join(f"  {key}: {value}\n" for key, value in fields.items())
    path = directory / "sync.yaml"
    path.write_text(f"{path.read_text()}quarantine:\n{lines}")


def test_it_holds_until_its_date(directory: Path) -> None:
    put_in_quarantine(directory, VALID | {"until": TODAY.isoformat()})
    quarantine = load(directory)["sync"].quarantine
    assert quarantine is not None
    assert quarantine.until == TODAY.isoformat()


def test_a_scenario_in_quarantine_still_runs(directory: Path) -> None:
    put_in_quarantine(directory, VALID)
    resolved = resolve("sync", load(directory)["sync"], environment={}, rehearsal=False, cache="")
    assert resolved.scenario.quarantine is not None
    assert resolved.scenario.quarantine.until == VALID["until"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"until": (TODAY - timedelta(days=1)).isoformat()}, f"the quarantine ended on {TODAY - timedelta(days=1)}"),
        ({"until": "spring"}, "sync.yaml: quarantine.until"),
        ({"link": "a page"}, "sync.yaml: quarantine.link"),
        ({"reason": "flaky"}, "sync.yaml: quarantine.reason"),
        ({"because": "it is flaky"}, "sync.yaml: quarantine.because: no such field"),
    ],
)
def test_the_catalogue_fails(directory: Path, change: dict[str, str], complaint: str) -> None:
    put_in_quarantine(directory, VALID | change)
    with pytest.raises(ConfigError) as error:
        load(directory)
    assert complaint in str(error.value)


@pytest.mark.parametrize("field", VALID)
def test_every_field_is_required(directory: Path, field: str) -> None:
    put_in_quarantine(directory, {key: value for key, value in VALID.items() if key != field})
    with pytest.raises(ConfigError, match=f"quarantine.{field}: is required"):
        load(directory)
