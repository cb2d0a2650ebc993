"""Objects on their way between the notebook and its ranks.

`pack` makes a parcel of an object; a large one is shipped in memory that both processes map, if they are
on one host, and any other goes through the ordinary channel as `flat` bytes. `load` opens either.
"""

from .pack import pack as pack
from .parcel import Parcel as Parcel
from .parcel import load as load
from .shipment import Address as Address
from .shipment import Shipment as Shipment
from .shipment import reach as reach
from .shipment import ship as ship

__all__ = ["Address", "Parcel", "Shipment", "load", "pack", "reach", "ship"]
