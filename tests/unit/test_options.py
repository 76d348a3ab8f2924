"""What follows ``--`` is understood, or refused with one line that names what would be right."""

from __future__ import annotations

import pytest

from ci.errors import ConfigError
from ci.options import HelpRequested, Options, parse


def test_nothing_given_is_every_default() -> None:
    assert parse([], session="e2e_fsdp2") == Options()


def test_options_and_overrides_may_be_mixed_and_overrides_keep_their_order() -> None:
    words = [
        "trainer.total_training_steps=7",
        "--target",
        "cpu",
        "+trainer.foo=1",
        "--timeout=90s",
        "~data.seed",
        "--keep",
    ]
    options = parse(words, session="e2e_fsdp2")
    assert options.arguments == ("trainer.total_training_steps=7", "+trainer.foo=1", "~data.seed")
    assert (options.target, options.timeout_s, options.keep) == ("cpu", 90.0, True)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("2h", 7200.0)])
def test_a_time_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert parse(["--timeout", text], session="e2e_fsdp2").timeout_s == seconds


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--traget", "cpu"], "unknown option `--traget`; did you mean `--target`"),
        (["--dryrun"], "unknown option `--dryrun`; did you mean `--dry-run`?"),
        (["-k"], "unknown option `-k`; known: --target"),
        (["--target", "gpu"], "invalid choice: 'gpu' (choose from"),
        (["--target"], "expected one argument"),
        (["--target", "cpu", "--target", "cuda"], "`--target` is given twice"),
        (["--timeout", "0"], "`0` is no time"),
        (["--timeout", "soon"], "`soon` is no time: write 90s, 20m or 1.5h"),
        (["trainer.total_training_steps", "7"], "`trainer.total_training_steps` is no Hydra override"),
        (["trainer.total_training_steps=1,2"], "names several values: that is a sweep"),
        (["a.b=[1,2"], "`a.b=[1,2` is no Hydra override"),
    ],
)
def test_a_wrong_word_is_named(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(words, session="e2e_fsdp2")
    assert message in str(error.value)


def test_help_names_the_session_and_every_option() -> None:
    with pytest.raises(HelpRequested) as asked:
        parse(["--help"], session="e2e_sync")
    text = str(asked.value)
    assert "nox -s e2e_sync --" in text
    assert all(
        option in text for option in ("--target", "--engine", "--verl", "--timeout", "--keep", "--dry-run", "--json")
    )
