"""What every test starts from."""

import os

# Whether a function is compiled or read from the cache may change no test's output.
os.environ["OUTTREES_COMPILE_QUIETLY"] = "1"
# Nor may how long it takes; tests of progress switch its lines on again.
os.environ["OUTTREES_QUIET"] = "1"
