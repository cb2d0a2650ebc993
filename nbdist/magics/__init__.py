"""What a cell can say: `%nbdist` and `%%distributed`, and how the ranks' output is shown."""

from .extension import load as load
from .extension import unload as unload
