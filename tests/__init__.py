"""The tests. The processes of a run of them import the same, so they keep what they
compile.
"""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
