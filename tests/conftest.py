"""What every test starts from."""

import os

# Whether a function is compiled or read from the cache may change no test's output.
os.environ["OUTTREES_COMPILE_QUIETLY"] = "1"
