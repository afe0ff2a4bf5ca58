"""Formats counts for messages."""


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
