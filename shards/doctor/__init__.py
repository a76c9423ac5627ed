"""`borzoi doctor`: whether a broker can run here, line by line; nothing is started or changed.

Owns nothing. command.py is the command, looks.py what it looks at, finding.py what a look returns.
May use all rooms below. Always: a look that fails is a finding, never the end of the others.
"""
