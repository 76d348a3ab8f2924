"""What the sessions of noxfile.py do: read the command line, make a plan, and hand it on."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console

from ci.cache import cache_directory
from ci.caller import as_caller
from ci.devices.lease import lease
from ci.devices.probe import probe
from ci.dry_run import plan_text
from ci.engines.docker import DockerEngine
from ci.engines.engine import Engine
from ci.engines.host import HostEngine
from ci.errors import ConfigError, SuiteError, error_for
from ci.options import HelpRequested, parse
from ci.plan import Plan, Verl
from ci.planning import RELEASE, plan_for
from ci.preflight.preflight import preflight
from ci.preflight.report import print_report, summary
from ci.rehearsal.environment import ensure_environment
from ci.runs.execute import execute
from ci.runs.preparation import Prepare, Prepared, Stage
from ci.runs.record import VerlRecord
from ci.runs.signals import cancel_on_signals
from ci.scenarios.catalogue import load, scenario_called
from ci.surroundings import ROOT, surroundings_of
from ci.verl.source import find_source

RUNS = ROOT / "runs"


def run_scenario(name: str, words: Sequence[str]) -> None:
    """Run a scenario, rehearse it, or show its plan."""
    with _answered(), as_caller() as environment:
        options = parse(words, session=f"e2e_{name}")
        catalogue = load()
        plan = plan_for(name, options, catalogue=catalogue, surroundings=surroundings_of(options, environment))
        if options.dry_run:
            print(plan.model_dump_json(indent=2) if options.json else plan_text(plan, catalogue[name]))
            return
        engine: Engine = DockerEngine() if plan.engine == "docker" else HostEngine()
        with cancel_on_signals() as cancellation:
            record = execute(plan, runs=RUNS, engine=engine, prepare=_preparation(plan), cancellation=cancellation)
        if options.json:
            print(record.model_dump_json(indent=2))
        if record.failure_class is not None:
            sys.exit(error_for(record.failure_class).exit_code)


def _preparation(plan: Plan) -> Prepare:
    """Return what has to happen before the plan's first command."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Prepared]:
        if plan.rehearsal and plan.engine == "host":
            ensure_environment(verl=plan.verl, cache=cache_directory(), run=stage.command)
        found = preflight([plan], required=plan.preflight_only is None, runs=RUNS)
        if plan.preflight_only is not None:
            stage.say(f"cannot be rehearsed yet: {plan.preflight_only}; its preflight is run instead")
            print_report(found.lines, Console())
        if (error := found.as_error()) is not None:
            raise error
        if plan.preflight_only is None:
            stage.say(summary(found.lines))
        source = find_source(plan.verl)
        with _leased(plan) as devices:
            yield Prepared(
                configuration=found.configurations.get(plan.scenario),
                verl=VerlRecord(version=source.version, commit=source.commit),
                devices=devices,
                notes=tuple(f"{line.name}: {line.detail}" for line in found.lines if line.state == "warning"),
            )

    return prepare


@contextmanager
def _leased(plan: Plan) -> Iterator[tuple[int, ...]]:
    if plan.target == "cpu" or plan.preflight_only is not None:
        yield ()
        return
    free = tuple(device.id for device in probe() if device.kind == plan.target and not device.busy_by)
    with lease(plan.target, free, plan.devices, holder=f"e2e_{plan.scenario}") as devices:
        yield devices


def run_preflight(words: Sequence[str]) -> None:
    """Check the whole catalogue, or the scenarios named, against verl's own configuration and this machine."""
    with _answered(), as_caller() as environment:
        options = parse(words, session="preflight", overrides=False)
        catalogue = load()
        overrides = tuple(word for word in options.arguments if set(word) & set("=+~"))
        names = [word.removeprefix("e2e_") for word in options.arguments if word not in overrides] or list(catalogue)
        surroundings = surroundings_of(options, environment)
        if surroundings.verl is None:
            surroundings = replace(surroundings, verl=Verl(kind="release", name=RELEASE), verl_version=RELEASE)
        plans: list[Plan] = []
        problems: list[str] = []
        for name in dict.fromkeys(names):
            target = scenario_called(name, catalogue).accelerator if options.target == "auto" else options.target
            wanted = replace(options, target=target, arguments=overrides)
            try:
                plans.append(plan_for(name, wanted, catalogue=catalogue, surroundings=surroundings))
            except SuiteError as error:
                problems.append(str(error))
        found = preflight(plans, runs=RUNS)
        if options.json:
            print(json.dumps(json.loads(found.json()) | {"unplanned": problems}, indent=2))
        else:
            print_report(found.lines, Console())
            print(*problems, sep="\n", end="\n" if problems else "")
        if (refusal := found.as_error()) is not None or problems:
            sys.exit(refusal.exit_code if refusal else ConfigError.exit_code)


def run_overhead(words: Sequence[str]) -> None:
    """Print what a warm session costs beyond the trainer it starts."""
    from ci.overhead import compare

    with _answered(), as_caller() as environment:
        options = parse(["--target", "cpu", *words], session="overhead", overrides=False)
        name = options.arguments[0] if options.arguments else "fsdp2"
        surroundings = surroundings_of(options, environment)
        plan = plan_for(name, replace(options, arguments=()), catalogue=load(), surroundings=surroundings)
        with cancel_on_signals() as cancellation:
            compare(plan, environment, root=ROOT, cancellation=cancellation)


def run_affected(words: Sequence[str]) -> None:
    """Name the scenarios a change touches, and run them where asked to."""
    from ci.workflows.affected import main

    with _answered():
        main(words, run_scenario)


@contextmanager
def _answered() -> Iterator[None]:
    """Turn what the suite raises into its message and its return code."""
    for library in ("docker", "urllib3"):  # nox shows what every logger says
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        yield
        sys.stdout.flush()
    except HelpRequested as asked:
        print(asked)
    except BrokenPipeError:
        # Nobody reads on, as in `| head`; what the interpreter still wants to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except SuiteError as error:
        sys.stdout.flush()
        print(error, file=sys.stderr, flush=True)
        sys.exit(error.exit_code)
