"""What the processes of ``ticker.py`` and their test both know."""

from datetime import timedelta

SCHEDULES = 10
INTERVAL = timedelta(seconds=2)
