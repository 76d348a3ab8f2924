"""From a scenario, options and the environment to a plan. Pure: what it must know of the machine is handed in."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from ci.errors import ConfigError
from ci.images.identity import Identity
from ci.images.policy import missing_capabilities, started_from
from ci.options import Options
from ci.plan import EngineName, Image, Layout, Mount, Plan, RoleLayout, Step, Verl
from ci.rehearsal.location import PLUGINS, assets_of, python_of
from ci.scenarios.catalogue import Catalogue, scenario_called
from ci.scenarios.hydra_values import written
from ci.scenarios.model import Facts, Scenario, Target
from ci.scenarios.resolution import Resolved, integer, resolve

MODULE = "verl.trainer.main_ppo"
RELEASE = "0.9.1"
"""The release of verl that is rehearsed, and that scenarios are checked against, unless another is named."""
REHEARSAL_IMAGE = "cpu"
REHEARSAL_NEEDS = ("fsdp",)
"""A rehearsal trains with FSDP, and its rollout is the suite's own."""
_SEARCHED = ("PATH", "LD_LIBRARY_PATH")
"""Variables of an image that come before the caller's own, and do not replace them."""
_PY_EXECUTABLE = "ray_kwargs.ray_init.runtime_env.py_executable"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a plan depends on beyond scenario and options."""

    environment: Mapping[str, str]
    machine: Target
    """The best target this machine has."""
    inside: Identity | None
    """The image that this machine was started from; None elsewhere."""
    cache: Path
    images: Mapping[str, Image]
    """The image of each name that a plan can name, as the lock has it."""
    verl: Verl | None = None
    """The one ``--verl`` names, or a checkout that was found; None: a rehearsal takes a release, a run the image's."""
    verl_version: str | None = None
    """Its version where known: overrides that an older release does not know are left out."""

    @property
    def is_ci(self) -> bool:
        """Return whether a CI system started the suite."""
        return any(self.environment.get(name, "").lower() in {"1", "true"} for name in ("CI", "GITHUB_ACTIONS"))


def plan_for(name: str, options: Options, *, catalogue: Catalogue, surroundings: Surroundings) -> Plan:
    """Return the plan of one scenario.

    Raises:
        ConfigError: for knobs or options that do not fit the scenario, each with what would.
    """
    scenario = scenario_called(name, catalogue)
    name = name.removeprefix("e2e_")
    notes: list[str] = []
    target = _target(name, scenario, options, catalogue, surroundings, notes)
    preflight_only = scenario.rehearsal.unsupported if target == "cpu" else None
    rehearsal = target == "cpu" and preflight_only is None
    if preflight_only is not None:
        target = scenario.accelerator
    assets = str(assets_of(surroundings.cache))
    resolved = resolve(name, scenario, environment=surroundings.environment, rehearsal=rehearsal, cache=assets)
    scenario = resolved.scenario
    engine = _engine(target, options, surroundings)
    needs = REHEARSAL_NEEDS if rehearsal else scenario.needs
    image = _image(name, scenario, needs, options, surroundings, engine, rehearsal=rehearsal)
    verl, verl_version = surroundings.verl, surroundings.verl_version
    if verl is None and (rehearsal or preflight_only):
        verl, verl_version = Verl(kind="release", name=RELEASE), RELEASE
    if verl is None or verl.kind == "image":
        verl = (
            Verl(kind="image", name=image.reference)
            if image and engine == "docker"
            else Verl(kind="installed", name="python3")
        )
    launcher, py_executable = _launcher(resolved, verl, surroundings, engine, rehearsal=rehearsal)
    notes += _ignored_knobs(resolved, catalogue, surroundings)
    limits = (scenario.rehearsal.limits if rehearsal else None) or scenario.limits
    steps = scenario.rehearsal.data if rehearsal else scenario.data
    data_files = scenario.data_files
    return Plan(
        scenario=name,
        summary=scenario.summary,
        target=target,
        engine=engine,
        rehearsal=rehearsal,
        verl=verl,
        knobs=resolved.knobs,
        layout=Layout(
            devices=integer(scenario.layout.devices),
            colocated=scenario.layout.colocated,
            roles=tuple(
                RoleLayout(role=role, devices=integer(part.devices)) for role, part in scenario.layout.roles.items()
            ),
        ),
        launcher=launcher,
        module=MODULE,
        overrides=_overrides(scenario, py_executable, verl_version, notes, rehearsal=rehearsal),
        arguments=options.arguments,
        environment=_environment(scenario, verl, surroundings, engine, image, rehearsal=rehearsal),
        working_directory=verl.name if verl.kind == "checkout" and not rehearsal else None,
        image=image,
        strict=surroundings.is_ci,
        mounts=_mounts(scenario, verl, surroundings, assets, rehearsal=rehearsal) if engine == "docker" else (),
        devices=0 if rehearsal else integer(scenario.layout.devices),
        steps=tuple(
            Step(name=key, argv=(*launcher, *step.command), creates=step.creates)
            for key, step in steps.items()
            if rehearsal or set(step.creates) & set(data_files)
        ),
        models=scenario.models,
        data_files=data_files,
        needs=needs,
        facts=_facts(scenario, rehearsal=rehearsal),
        checks=scenario.checks | (scenario.rehearsal.checks if rehearsal else {}),
        time_limit_s=options.timeout_s or limits.time_minutes * 60,
        stall_limit_s=limits.stall_minutes * 60,
        keep=options.keep,
        preflight_only=preflight_only,
        notes=tuple(notes),
        reproduce=_reproduce(name, "cpu" if preflight_only else target, options, resolved),
    )


def _target(
    name: str,
    scenario: Scenario,
    options: Options,
    catalogue: Catalogue,
    surroundings: Surroundings,
    notes: list[str],
) -> Target:
    match options.target:
        case "auto" if surroundings.machine == scenario.accelerator:
            notes.append(f"target {scenario.accelerator}: this machine has its devices")
            return scenario.accelerator
        case "auto" if surroundings.is_ci:
            raise ConfigError(
                f"e2e_{name} needs {scenario.accelerator} devices, this machine has none, and under CI a rehearsal is "
                "never started by itself: it must not pass for the real run",
                hint=f"name the target in the workflow: `nox -s e2e_{name} -- --target cpu` rehearses, "
                f"`--target {scenario.accelerator}` insists on devices",
            )
        case "auto":
            notes.append(f"target cpu: no {scenario.accelerator} device here, so this is a rehearsal")
            return "cpu"
        case "cpu":
            return "cpu"
        case wanted if wanted == scenario.accelerator:
            return scenario.accelerator
        case wanted:
            twin = f"{name}_ascend" if wanted == "npu" else name.removesuffix("_ascend")
            other = (
                f"`nox -s e2e_{twin}` is its {wanted} twin"
                if twin in catalogue and twin != name
                else "there is no twin"
            )
            raise ConfigError(f"e2e_{name} runs on {scenario.accelerator}, not on {wanted}", hint=other)


def _engine(target: Target, options: Options, surroundings: Surroundings) -> EngineName:
    if options.engine != "auto":
        return options.engine
    return "host" if target == "cpu" or surroundings.inside else "docker"


def _image(
    scenario_name: str,
    scenario: Scenario,
    needs: tuple[str, ...],
    options: Options,
    surroundings: Surroundings,
    engine: EngineName,
    *,
    rehearsal: bool,
) -> Image | None:
    """Return the image that the run starts in, or already is in."""
    images = surroundings.images
    usual = REHEARSAL_IMAGE if rehearsal else scenario.image
    if engine == "docker":
        name = options.image or usual
        if name not in images:
            raise ConfigError(f"no image is called `{name}`; known: {', '.join(sorted(images)) or 'none'}")
        image = images[name]
    elif surroundings.inside is None or rehearsal:
        return None
    else:
        image = started_from(surroundings.inside, images)
    if missing := missing_capabilities(needs, image):
        raise ConfigError(
            f"e2e_{scenario_name} needs {', '.join(missing)}, which the image {image.name} does not have: it has "
            f"{', '.join(image.capabilities) or 'nothing that images.yaml names'}",
            hint=f"the scenario's own image is {usual}; containers/images.yaml names what each one has",
        )
    return image


def _launcher(
    resolved: Resolved, verl: Verl, surroundings: Surroundings, engine: EngineName, *, rehearsal: bool
) -> tuple[tuple[str, ...], str]:
    """Return what starts Python, and what Ray is to start its workers with."""
    if rehearsal and engine == "host":
        return (str(python_of(verl, surroundings.cache)),), "null"
    launcher = resolved.scenario.launcher
    knobs = resolved.knobs
    engine_name = str(knobs.get("ROLLOUT_NAME", "vllm"))
    if rehearsal or knobs["VERL_USE_UV"] == "0" or knobs["DEVICE"] != "gpu" or engine_name not in launcher.uv_engines:
        return ("python3",), "null"
    extras = [word for extra in launcher.uv_extras for word in ("--extra", extra)]
    run = ("run", "--frozen", "--all-packages", *extras)
    return ("uv", *run, "python3"), shlex.join(("uv", "-v", *run))


def _overrides(
    scenario: Scenario, py_executable: str, verl_version: str | None, notes: list[str], *, rehearsal: bool
) -> tuple[str, ...]:
    pairs = [*scenario.overrides.items(), (_PY_EXECUTABLE, py_executable), *scenario.amendments.items()]
    if rehearsal:
        pairs += scenario.rehearsal.overrides.items()
    if verl_version is not None:
        release = Version(verl_version).release
        unknown = {key for key, since in scenario.since.items() if release < Version(since).release}
        dropped = sorted(unknown & {key for key, _ in pairs})
        notes += [
            f"{key} is left out: verl has it since {scenario.since[key]}, this is {verl_version}" for key in dropped
        ]
        pairs = [(key, value) for key, value in pairs if key not in unknown]
    return tuple(f"{key}={written(value)}" for key, value in pairs)


def _environment(
    scenario: Scenario,
    verl: Verl,
    surroundings: Surroundings,
    engine: EngineName,
    image: Image | None,
    *,
    rehearsal: bool,
) -> dict[str, str]:
    given = surroundings.environment
    inside = surroundings.inside.environment if surroundings.inside and image and engine == "host" else {}
    inherited = (inside.get("PYTHONPATH", ""), given.get("PYTHONPATH", "")) if engine == "host" else ()
    checkout = verl.name if rehearsal and verl.kind == "checkout" else ""
    python_path = (*(() if rehearsal else scenario.python_path), str(PLUGINS), checkout, *inherited)
    searched = {name: (inside[name], given.get(name, "")) for name in _SEARCHED if name in inside}
    modules = ("verl_observer", *(("verl_rehearsal",) if rehearsal else ()), given.get("VERL_USE_EXTERNAL_MODULES", ""))
    return {
        **inside,
        **{name: _joined(folders) for name, folders in searched.items()},
        **scenario.environment,
        **(scenario.rehearsal.environment if rehearsal else {}),
        "PYTHONPATH": _joined(python_path),
        "PYTHONUNBUFFERED": "1",
        "VERL_USE_EXTERNAL_MODULES": ",".join(module for module in modules if module),
    }


def _joined(paths: Iterable[str]) -> str:
    return ":".join(dict.fromkeys(folder for path in paths for folder in path.split(":") if folder))


def _mounts(
    scenario: Scenario, verl: Verl, surroundings: Surroundings, assets: str, *, rehearsal: bool
) -> tuple[Mount, ...]:
    writable = {str(PLUGINS): False}
    if rehearsal:
        writable[str(Path(assets).parent)] = True  # the assets are made beside their place, then renamed
    else:
        writable |= dict.fromkeys(scenario.models.values(), False)
        written_by_a_step = {str(Path(path).parent) for step in scenario.data.values() for path in step.creates}
        for path in scenario.data_files:
            folder = str(Path(path).parent)
            writable[folder] = folder in written_by_a_step
        home = surroundings.environment.get("HOME", "/root")
        sources = [word for step in scenario.data.values() for word in step.command if word.startswith(home)]
        writable |= {source: False for source in sources if source not in writable}
    if verl.kind == "checkout":
        writable[verl.name] = not rehearsal  # uv keeps its environment beside uv.lock
    return tuple(Mount(path=path, read_only=not rw) for path, rw in sorted(writable.items()))


def _facts(scenario: Scenario, *, rehearsal: bool) -> Facts:
    different = scenario.rehearsal.facts.model_dump(exclude_none=True) if rehearsal else {}
    return scenario.facts.model_copy(update=different)


def _ignored_knobs(resolved: Resolved, catalogue: Catalogue, surroundings: Surroundings) -> list[str]:
    """Return a note for each variable that is set, is a knob elsewhere, and means nothing here."""
    elsewhere = {knob for scenario in catalogue.values() for knob in (*scenario.knobs, *scenario.derived)}
    ignored = sorted(elsewhere - set(resolved.knobs))
    given = [knob for knob in ignored if surroundings.environment.get(knob)]
    return [f"{knob} is set, but it is no knob of this scenario: ignored" for knob in given]


def _reproduce(name: str, target: Target, options: Options, resolved: Resolved) -> str:
    words = [f"{knob}={shlex.quote(text)}" for knob, text in resolved.given.items()]
    words += ["nox", "-s", f"e2e_{name}", "--", "--target", target]
    for option, value in (("--engine", options.engine), ("--verl", options.verl), ("--image", options.image)):
        if value not in {None, "auto"}:
            words += [option, shlex.quote(str(value))]
    if options.timeout_s:
        words += ["--timeout", f"{options.timeout_s:g}s"]
    return " ".join((*words, *(shlex.quote(argument) for argument in options.arguments)))
