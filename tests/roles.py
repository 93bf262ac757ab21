"""In whose name a plan is run: by the file that it stands in, and by its name where one file serves several roles.

What is not named here is run by workers, or by what runs in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import dynadurable
from dynadurable.storage.permissions import Role

PRODUCT = Path(dynadurable.__file__).resolve().parent
NOT_DEPLOYED = ("testing", "demo", "cli", "pytest_plugin.py")

BY_FILE: Mapping[str, Role] = {
    "control/bulk.py": Role.ENQUEUE,
    "control/cleaning.py": Role.CLEAN,
    "control/dead.py": Role.OBSERVE,
    "control/leases.py": Role.OBSERVE,
    "control/queues.py": Role.OBSERVE,
    "control/runs.py": Role.OBSERVE,
    "control/schedules.py": Role.OBSERVE,
    "control/signals.py": Role.ENQUEUE,
    "control/workers.py": Role.OBSERVE,
}
BY_NAME: Mapping[str, Role | None] = {
    "Operations.enqueue": Role.ENQUEUE,
    "Operations.check_table": Role.OBSERVE,
    # For development: whoever deploys makes the table otherwise.
    "Operations.create_table": None,
    # Tries whatever anybody may do, to find out whether it is allowed.
    "DoctorPlans.examine": None,
    "DoctorPlans.table": Role.OBSERVE,
    "DeadPlans.replay": Role.REPLAY,
    "DeadPlans.replay_one": Role.REPLAY,
    "DeadPlans.purge": Role.REPLAY,
    "LeasePlans.break_": Role.REPLAY,
    "QueuePlans.pause": Role.REPLAY,
    "QueuePlans.resume": Role.REPLAY,
    "RunPlans.cancel": Role.REPLAY,
    "RunPlans.delay_until": Role.REPLAY,
    "RunPlans.retry": Role.REPLAY,
    "RunPlans.run_now": Role.REPLAY,
    "SchedulePlans.change": Role.REPLAY,
    "SchedulePlans.create": Role.REPLAY,
    "SchedulePlans.delete": Role.REPLAY,
    "SchedulePlans.pause": Role.REPLAY,
    "SchedulePlans.resume": Role.REPLAY,
    "SchedulePlans.trigger": Role.REPLAY,
}


@lru_cache(maxsize=1024)
def role_of(plan: str) -> Role | None:
    """Whose grant must suffice for that plan (``file:name``); ``None`` for what nobody is granted."""
    file, _, name = plan.rpartition(":")
    path = Path(file)
    if not path.is_relative_to(PRODUCT):
        return None  # a test's own
    place = path.relative_to(PRODUCT).as_posix()
    if place.startswith(NOT_DEPLOYED):
        return None
    if name in BY_NAME:
        return BY_NAME[name]
    return BY_FILE.get(place, Role.WORK)
