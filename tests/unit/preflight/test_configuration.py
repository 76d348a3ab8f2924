from __future__ import annotations

from pathlib import Path

import hydra
import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from ci.preflight.configuration import Composer
from ci.preflight.problem import Problem
from ci.verl.source import Source


def problems_of(source: Source, *overrides: str) -> list[Problem]:
    return list(Composer(source=source).compose(overrides).problems)


def test_a_configuration_is_composed_with_all_overrides(source: Source) -> None:
    overrides = (
        "trainer.total_epochs=1",
        "++trainer.n_gpus_per_node=4",
        "+trainer.new.key=x",
        "trainer.total_epochs=2",
    )
    composition = Composer(source=source).compose(overrides)
    assert composition.problems == ()
    assert composition.configuration is not None
    assert composition.configuration["trainer"]["new"] == {"key": "x"}
    assert composition.configuration["trainer"]["n_gpus_per_node"] == 4
    assert composition.given == {"trainer.total_epochs": 2, "trainer.n_gpus_per_node": 4, "trainer.new.key": "x"}
    assert yaml.safe_load(composition.text)["trainer"]["total_epochs"] == 2
    assert not GlobalHydra.instance().is_initialized()


def test_a_kept_composition_is_the_same(source: Source) -> None:
    overrides = ("trainer.total_epochs=1", "trainer.nodes=2")
    assert Composer(source=source).compose(overrides) == Composer(source=source).compose(overrides)


@pytest.mark.parametrize(
    ("override", "name", "message", "hint"),
    [
        ("trainer.total_epoch=1", "trainer.total_epoch", "has no key trainer.total_epoch", "trainer.total_epochs"),
        (
            "actor_rollout_ref.actor.tensor_model_parallel_size=2",
            None,
            "has no key",
            "rollout.tensor_model_parallel_size",
        ),
        ("actor_rollout_ref.rollout.engine_kwargs.vllm.x=1", None, "has no key", "nearest"),
        ("actor_rollout_ref.rollout.engine_kwargs.x=1", None, "has no key", "is open: +actor_rollout_ref"),
        ("~trainer.logge", "trainer.logge", "has no key trainer.logge", "trainer.logger"),
        ("+trainer.total_epochs=1", "trainer.total_epochs", "already has", "write trainer.total_epochs=1"),
        ("model_engine=ddp", "model_engine", "has no model_engine=ddp", "did you mean dp?"),
        ("group@package=x", "group", "verl has no group group", ""),
        ("trainer.logger=[", "trainer.logger", "Hydra cannot read the override", "KEY=VALUE"),
        ("trainer.nnodes=1,2", "trainer.nnodes", "several values", "KEY=[a,b]"),
        ("trainer.nnodes=two", "trainer.nnodes", "is a text, where verl's default 1 is a whole number", "whole number"),
        ("trainer.total_epochs=1.5", "trainer.total_epochs", "is a number, where", "whole number"),
        ("data.train_batch_size=True", "data.train_batch_size", "is True or False, where", "whole number"),
        ("trainer.val_before_train=1", "trainer.val_before_train", "is a whole number, where", "True or False"),
        ("data.train_batch_size=0", "data.train_batch_size", "at least 1", "1 or more"),
        ("trainer.v1=3", "trainer.v1", "is a whole number, where", "a section"),
    ],
)
def test_an_override_that_does_not_fit_is_named(
    source: Source, override: str, name: str | None, message: str, hint: str
) -> None:
    (problem,) = problems_of(source, override)
    assert problem.name == (name or override.partition("=")[0])
    assert message in problem.message
    assert hint in problem.hint
    assert problem.state == "failed"


def test_all_problems_are_collected_and_the_rest_is_composed(source: Source) -> None:
    composition = Composer(source=source).compose(
        ("trainer.nodes=2", "a=[", "data.train_batch_size=x", "trainer.nnodes=3")
    )
    assert [problem.name for problem in composition.problems] == ["a", "trainer.nodes", "data.train_batch_size"]
    assert composition.configuration is not None
    assert composition.configuration["trainer"]["nnodes"] == 3


def test_what_hydra_alone_sees_is_said_in_its_words(source: Source) -> None:
    composition = Composer(source=source).compose(("trainer={nodes: 2}", "trainer.nnodes=3"))
    (problem,) = composition.problems
    assert problem.name == "trainer"
    assert "nodes" in problem.message
    assert composition.configuration is not None
    assert composition.configuration["trainer"]["nnodes"] == 3


def test_a_verl_whose_defaults_do_not_compose_has_no_configuration(source: Source, fake_verl: Path) -> None:
    (fake_verl / "verl/trainer/config/model_engine/dp.yaml").unlink()
    composition = Composer(source=source).compose(("trainer.nnodes=3",))
    assert composition.configuration is None
    assert "model_engine/dp" in composition.problems[0].message


def test_the_result_is_what_hydra_composes(source: Source) -> None:
    overrides = ["model_engine=dp", "~trainer.logger", "+a.b=[1,x]", "++a.c=${trainer.nnodes}", "data.truncation=left"]
    with hydra.initialize_config_dir(config_dir=str(source.configuration), version_base=None):
        expected = OmegaConf.to_container(hydra.compose("ppo_trainer", overrides=overrides))
    assert Composer(source=source).compose(overrides).configuration == expected


def test_a_key_added_beside_its_twin_is_a_warning(source: Source) -> None:
    (problem,) = problems_of(source, "+trainer.total_epoch=3")
    assert problem.state == "warning"
    assert problem.hint == "was trainer.total_epochs meant?"


@pytest.mark.parametrize(
    "override",
    [
        "trainer.logger=console",
        "actor_rollout_ref.actor.clip=0.1",
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True",
        "trainer.nnodes=null",
        "critic.enable=True",
        "trainer.total_epochs=${trainer.nnodes}",
        "~trainer.logger",
        "+trainer.v1={new: 1}",
        "+ray_kwargs.ray_init.num_gpus=4",
        "hydra.run.dir=elsewhere",
        "hydra/job_logging=disabled",
    ],
)
def test_what_hydra_and_verl_take_is_taken(source: Source, override: str) -> None:
    assert problems_of(source, override) == []
