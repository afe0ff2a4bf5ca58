"""Windows over the records' own time (event time). Pure: no store, no clock, no Kafka.

A window is a group. Its name is the start of the window and the key. It ends when the watermark of its partition has
passed the end. `WindowGroups` is the entry point: it replaces `Groups`, and the changelog restores it in the same way.
"""
