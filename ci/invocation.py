"""Invoke tasks that answer for the suite's errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task

from ci.errors import SuiteError

Parameters = ParamSpec("Parameters")
Body = Callable[Concatenate[Context, Parameters], None]


def suite_task(body: Body[Parameters]) -> Task[Body[Parameters]]:
    """Make a task of the function; an error of the suite ends it with its message and return code, not a traceback."""

    @functools.wraps(body)
    def answered(context: Context, /, *arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        try:
            body(context, *arguments, **options)
        except SuiteError as error:
            raise Exit(str(error), code=error.exit_code) from error

    return Task(answered)
