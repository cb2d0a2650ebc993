"""Move tensors between ranks: our own compiled collectives, as torch.distributed's backend `nbdist`."""

from .hosts import host_identity as host_identity
from .world import abort as abort
from .world import bytes_moved as bytes_moved
from .world import end_lines as end_lines
from .world import enter_cell as enter_cell
from .world import form_world as form_world
from .world import is_aborted as is_aborted
from .world import leave_cell as leave_cell
from .world import leave_world as leave_world
from .world import listen as listen
from .world import open_endpoint as open_endpoint
from .world import register as _register
from .world import skip_cell as skip_cell
from .world import step as step

_register()
