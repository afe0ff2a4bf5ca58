"""Windows over the records' own time (event time). Pure: no store, no clock, no Kafka.

A window is a group whose name is the start of the window and the key, and which ends when the watermark of its
partition has passed the end. `WindowGroups` is the door: it stands in the place of `Groups`, and the changelog restores
it in the same way.
"""
