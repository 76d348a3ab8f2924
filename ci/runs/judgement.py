"""From a run that is over to its record."""

from __future__ import annotations

from datetime import datetime

from ci.runs import diagnose, verdict
from ci.runs.record import ImageRecord, Record, VerlRecord
from ci.runs.run import Run
from ci.runs.verdict import CheckResult


def judge(run: Run, began: datetime, duration_s: float) -> Record:
    """Return the record: the checks count once the trainer ended well."""
    plan, diagnosis = run.plan, run.diagnosis
    checks: tuple[CheckResult, ...] = ()
    if diagnosis is None and plan.preflight_only is None:
        checks = verdict.check(plan.checks, run.measurements)
        diagnosis = diagnose.failed_checks(checks, rollout_error=run.rollout_error[1] if run.rollout_error else None)
    if run.events.unreadable:
        run.notes.append(f"{run.events.unreadable} lines of events.jsonl could not be read")
    image = plan.image and ImageRecord(
        name=plan.image.name,
        reference=plan.image.reference,
        digest=run.image_digest or plan.image.digest,
        verified=plan.image.verified,
    )
    return Record(
        id=run.id,
        scenario=plan.scenario,
        target=plan.target,
        engine=plan.engine,
        rehearsal=plan.rehearsal,
        image=image,
        verl=run.prepared.verl if run.prepared else VerlRecord(version=None, commit=None),
        devices=run.prepared.devices if run.prepared else (),
        started=began.isoformat(timespec="seconds"),
        duration_s=round(duration_s, 3),
        status=verdict.status(
            diagnosis.failure_class if diagnosis else None,
            started=run.started,
            preflight_only=plan.preflight_only is not None,
        ),
        failure_class=diagnosis.failure_class if diagnosis else None,
        exit_code=run.exit_code,
        message=diagnosis.message if diagnosis else None,
        hint=diagnosis.hint if diagnosis else None,
        notes=tuple(run.notes),
        steps=len(run.measurements.steps),
        weight_syncs=run.measurements.weight_syncs,
        metrics=run.measurements.summary(),
        checks=checks,
        reproduce=plan.reproduce,
    )
