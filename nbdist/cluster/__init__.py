"""Start, reach, interrupt and stop ranks."""

from .cluster import Cluster as Cluster
from .failures import error_of as error_of
from .log import Log as Log
from .memory import refuse_too_large as refuse_too_large
from .ranks import RankInfo as RankInfo
from .reply import Reply as Reply
from .run import CellRun as CellRun
from .run import Output as Output
from .where import SILENT as SILENT
from .where import Inquiry as Inquiry
from .where import Where as Where
from .where import describe as describe
from .where import locate as locate
