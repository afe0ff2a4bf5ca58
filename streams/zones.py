"""Time zones by their names, such as Europe/Vienna, from the zone data of the system or of the package tzdata."""

from zoneinfo import ZoneInfo, available_timezones

from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.hints import did_you_mean

INSTALL = 'pip install "sluicegate[zones]"'
OF_A_MACHINE = ("localtime", "posixrules", "Factory")
"""Names that mean another zone on each machine, or no zone."""
LEAP_SECONDS = "right/"
"""The zones below this prefix count leap seconds, but Kafka's timestamps do not."""


def zone_of(name: str) -> ZoneInfo:
    """The zone of this name. Raises ConfigurationError."""
    zone = _loaded(name)
    if zone is None:
        raise ConfigurationError(f"{name} is not a time zone that this machine knows; {hint(name)}")
    return zone


def known(name: str) -> bool:
    """Whether this machine has data for the zone."""
    return _loaded(name) is not None


def hint(name: str) -> str:
    """The text that suggests a name instead of an unknown zone."""
    names = available_timezones() - {*OF_A_MACHINE}
    if not names:
        return f"this machine has no zone data: {INSTALL}"
    near = did_you_mean(name, sorted(names), {zone.lower(): zone for zone in names})
    return near if near.startswith("did you mean ") else f"write a name such as Europe/Vienna, or {INSTALL}"


def _loaded(name: str) -> ZoneInfo | None:
    if name in OF_A_MACHINE or name.startswith(LEAP_SECONDS):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
