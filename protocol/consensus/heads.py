"""What is done with a header of the consensus framing for every request: read one, write one.

Exists twice, compiled and in plain Python (loops.py says which runs), and is described where it is
plain: plain_heads.py. Microseconds, compiled / plain:

    read a request      0.1 / 0.7
    write a reply       0.1 / 0.5
"""

from borzoi.protocol.loops import LOOPS
from borzoi.protocol.plain_heads import stamp

if LOOPS == "compiled":
    from borzoi.protocol._heads import Head
else:
    from borzoi.protocol.plain_heads import Head

__all__ = ["Head", "stamp"]
