"""For every alert: when it fires and with which words, and when it does not."""

from tests.publish.rules.cases_gone import GONE
from tests.publish.rules.cases_memory import MEMORY
from tests.publish.rules.cases_slow import SLOW
from tests.publish.rules.promtool import Case

CASES: tuple[Case, ...] = (*SLOW, *MEMORY, *GONE)
