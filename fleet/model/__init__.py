"""The data types, frozen dataclasses and enums, with the terms that docs/glossary.md
defines.
"""

from fleet.model.benchmark import *
from fleet.model.errors import *
from fleet.model.host import *
from fleet.model.machine import *
from fleet.model.pickling import *
from fleet.model.plan import *
from fleet.model.run import *
