"""`python -m tests.pairs` writes the lists of the refusals. `git diff` then shows what a change permits or refuses."""

from tests.pairs import replays
from tests.pairs.judge import LIST, refusals

if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in refusals()), encoding="utf-8")
    replays.LIST.write_text("".join(f"{line}\n" for line in replays.table()), encoding="utf-8")
    print(f"{LIST.name}: {len(refusals())} refusals; {replays.LIST.name}: {len(replays.agents())} pairs")
