"""What a CPU second costs. This is the one place of the number: change it, and the tables of the bench follow."""

NAME = "AWS m7g.large, on demand, us-east-1, June 2026"
DOLLARS_AN_HOUR = 0.0816
VCPUS = 2
EUROS_A_DOLLAR = 0.9  # an assumption


def euros(cpu_seconds: float) -> float:
    """CPU seconds, times the price of an hour of one vCPU, by 3,600."""
    return cpu_seconds * DOLLARS_AN_HOUR / VCPUS * EUROS_A_DOLLAR / 3600


def line() -> str:
    """The formula, for a page."""
    return (
        "Euro a billion records: CPU seconds of the workers and of the store's server for a billion records, by 3,600, "
        f"times {DOLLARS_AN_HOUR:g} USD an hour by {VCPUS} vCPU ({NAME}), times {EUROS_A_DOLLAR:g} EUR a USD."
    )
