"""`python -m tests.hosts.vm`: build the images now, so that no test has to wait
for it.
"""

import sys

from tests.hosts.vm.image import image
from tests.hosts.vm.machines import AARCH64, ARMV7, S390X

for machine in (AARCH64, ARMV7, S390X):
    sys.stdout.write(f"{image(machine).folder}\n")
