"""Which GPUs of a node a claim would get, or why none.

`choosing` answers; `board` holds what is asked about; `freeing` asks it of a board that is not there yet. Nothing here
looks at other nodes, at pods or at who holds a device.
"""
