"""How much of a run's folder is read at the most, so that whoever made it, reading it ends.

Each is far above what TraceML itself writes; `docs/security.md` says what they promise.
"""

from typing import Final

MIB: Final = 2**20

NAMES: Final = 100_000  # in one folder
NAMES_SHOWN: Final = 20  # of nodes, where one is to be chosen

# Of single files.
SUMMARY_BYTES: Final = 16 * MIB  # of 1024 ranks it is 0.6 MiB
SUMMARY_VALUES: Final = 1_000_000  # and has 70 000 values
ANNOUNCEMENT_BYTES: Final = MIB
ANNOUNCEMENT_VALUES: Final = 1000
SEGMENT_BYTES: Final = 256 * MIB  # as much as a whole journal has by default
CHECKPOINT_BYTES: Final = 256 * MIB
LEFT_BYTES: Final = 256 * MIB  # many times what a rank keeps

# Of what a segment or checkpoint holds.
ENTRY_BYTES: Final = 2 * MIB  # twice the largest message that is taken
HEAD_VALUES: Final = 100_000
HEAD_BYTES: Final = 4 * MIB  # of a segment: a command line is no longer
DOCUMENT_BYTES: Final = 16 * MIB  # of a checkpoint; 1 MiB with 1024 ranks
DOCUMENT_VALUES: Final = 2_000_000  # 180 000 with 1024 ranks
ARRAYS: Final = 65_536  # 4100 with 1024 ranks
UNPACKED_BYTES: Final = 512 * MIB  # all arrays of a checkpoint; 150 MB with 1024 ranks

# A mark that begins no frame costs a look, and its checksum the bytes it claims: all of them
# together may cost so many times what the file itself would.
SCANS: Final = 8
MARK_COST_BYTES: Final = 1024

# Of a whole reading.
JOURNAL_BYTES: Final = 16 * 2**30
REPLAY_SECONDS: Final = 600.0  # a journal of the default size, read from its beginning: 60 s
RUNS: Final = 10_000  # that are listed
LISTED_BYTES: Final = 512 * MIB  # of their summaries
