"""How a net is run: the base of all net types, and the types."""

from tazza.nets.base import NETS, NetBase, check_net, create_net, net_type
from tazza.nets.simple import SimpleNet

__all__ = ["NETS", "NetBase", "SimpleNet", "check_net", "create_net", "net_type"]
