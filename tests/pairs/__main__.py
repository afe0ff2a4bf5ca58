"""`python -m tests.pairs` writes the lists of the refusals, and with `idle` behind it the list of the keys that change
nothing, which takes minutes. `git diff` then shows what a change permits or refuses."""

import sys

from tests.pairs import idle, judge, replays

if __name__ == "__main__":
    judge.LIST.write_text("".join(f"{line}\n" for line in judge.table()), encoding="utf-8")
    replays.LIST.write_text("".join(f"{line}\n" for line in replays.table()), encoding="utf-8")
    if "idle" in sys.argv:
        lines = [line for kind in idle.PLAYED for line in idle.table(kind)]
        idle.LIST.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{judge.LIST.name}: {len(judge.refusals())} refusals; {replays.LIST.name}: {len(replays.agents())} pairs")
