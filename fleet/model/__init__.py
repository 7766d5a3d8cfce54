"""The nouns: frozen dataclasses and closed sets of words, as docs/glossary.md defines them."""

from fleet.model.benchmark import *
from fleet.model.errors import *
from fleet.model.host import *
from fleet.model.machine import *
from fleet.model.plan import *
from fleet.model.run import *
