"""What verl lacks to train on a machine without accelerators; loaded by ``VERL_USE_EXTERNAL_MODULES=verl_rehearsal``.

`platform` makes ``VERL_PLATFORM=cpu`` known, `rollout` the rollout engine ``transformers``; `process_group` replaces
the one function of verl that cannot work on a CPU, and `ports` keeps two of a run's processes from one port.
`checkpoint_engine` is loaded by verl itself, as
``rollout.checkpoint_engine.custom_backend_module``. Nothing of verl is imported before verl needs it.
"""

from verl_observer.importing import after_import

from verl_rehearsal import ports, process_group, registration

after_import("verl.plugin.platform.platform_manager", registration.register_platform)
after_import("verl.single_controller.ray.base", ports.choose)
after_import("verl.utils.distributed", process_group.replace)
after_import("verl.workers.rollout.replica", registration.register_replica)
after_import("verl.workers.rollout.base", registration.register_adapter)
