"""`python -m outtrees`: the command line."""

from outtrees.cli import main

if __name__ == "__main__":
    main(prog_name="outtrees")
