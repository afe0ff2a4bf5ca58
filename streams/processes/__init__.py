"""The processes of `sluicegate run`: the supervisor, its children, and the channel between them.

It imports calling, the file's checks (`config`) and the reports of processes (`observe`).
"""
