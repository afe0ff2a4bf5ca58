"""`python -m sluicegate` is the command `sluicegate`."""

from sluicegate.streams.cli import main

if __name__ == "__main__":
    main()
