"""Time zones by their names, such as Europe/Vienna, from the zone data of the system or of the package tzdata."""

from zoneinfo import ZoneInfo, available_timezones

from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.hints import did_you_mean

INSTALL = 'pip install "sluicegate[zones]"'
OF_A_MACHINE = ("localtime", "posixrules", "Factory")
"""Names that mean another zone on each machine, or none."""
LEAP_SECONDS = "right/"
"""The zones below count leap seconds, which times of Kafka do not."""


def zone_of(name: str) -> ZoneInfo:
    """The zone of this name. Raises ConfigurationError."""
    zone = _loaded(name)
    if zone is None:
        raise ConfigurationError(f"{name} is not a time zone that this machine knows; {hint(name)}")
    return zone


def known(name: str) -> bool:
    """Whether this machine has data of the zone."""
    return _loaded(name) is not None


def hint(name: str) -> str:
    """What to write in place of a zone that is not known."""
    names = available_timezones() - {*OF_A_MACHINE}
    if not names:
        return f"this machine has no zone data: {INSTALL}"
    near = did_you_mean(name, sorted(names), {each.lower(): each for each in names})
    return near if near.startswith("did you mean ") else f"write a name such as Europe/Vienna, or {INSTALL}"


def _loaded(name: str) -> ZoneInfo | None:
    if name in OF_A_MACHINE or name.startswith(LEAP_SECONDS):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
