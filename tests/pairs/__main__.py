"""`python -m tests.pairs` writes the list of the refusals. `git diff` then shows what a change permits or refuses."""

from tests.pairs.judge import LIST, refusals

if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in refusals()), encoding="utf-8")
    print(f"{LIST.name}: {len(refusals())} refusals")
