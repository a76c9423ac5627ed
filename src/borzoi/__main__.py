"""`python -m borzoi` is the command `borzoi`."""

from borzoi.main import main

main(prog_name="borzoi")
