"""Run by an interpreter that has verl, in a process of its own: configurations come in, what verl refuses goes out.

Imports nothing of the suite: the interpreter is a rehearsal environment's, or an image's.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback


def main() -> None:
    """Answer one line of JSON on the standard output, whatever else verl prints there."""
    jobs = json.load(sys.stdin)
    importlib.import_module("verl")  # first of all: it imports the plug-ins, and fails where there is no verl
    print(json.dumps({name: refusals(text) for name, text in jobs.items()}), flush=True)


def refusals(text: str) -> list[list[str]]:
    """Return each check that verl does not pass, with what it says."""
    configuration = importlib.import_module("omegaconf").OmegaConf.create(text)
    needs = importlib.import_module("verl.trainer.ppo.utils")
    trainers = importlib.import_module("verl.trainer.ppo.v1")
    checks = importlib.import_module("verl.utils.config")

    def validate() -> None:
        checks.validate_config(
            config=configuration,
            use_reference_policy=needs.need_reference_policy(configuration),
            use_critic=needs.need_critic(configuration),
        )

    def construct() -> None:
        trainers.get_trainer_cls(configuration.trainer.v1.trainer_mode)(config=configuration)

    refused = []
    for name, check in (("validate_config", validate), ("trainer", construct)):
        try:
            check()
        except Exception as error:  # noqa: BLE001 (whatever verl raises is what is to be shown)
            traceback.print_exc()
            refused.append([name, " ".join(str(error).split()) or type(error).__name__])
    return refused


if __name__ == "__main__":
    main()
