"""Texts that would be code if a program wrote them into its source."""

import random

PARTS = (
    *(
        "'",
        '"',
        "'''",
        '"""',
        "\\",
        "\n",
        "\r",
        "\x00",
        "#",
        ";",
        ":",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "%s",
        "{0}",
        "f'{",
    ),
    *("__import__('os').system('x')", "exec", "eval", "unproven", "read", "f0", "v0", "t1", "g0", "lambda: 0", ":="),
    *("é", "😀", "\u2028", "\ufeff", "- where", "T", "X", "made", "True", "None", "a.b", " ", "0", "\\N{DIGIT ONE}"),
)


def texts(chance: random.Random, count: int) -> list[str]:
    return ["".join(chance.choices(PARTS, k=chance.randint(1, 5))) for _ in range(count)]
