"""The origin of a client, as far as it is counted: the smallest block that one party can have.

An IPv4 address is one origin. Of an IPv6 address it is the network of 64 bits: providers assign no
less, and a party that has it has 2**64 addresses.
"""

from ipaddress import IPv6Address, ip_address

NETWORK_BITS = 64


def host_of(address: str) -> str:
    """An address without its port."""
    return address.rpartition(":")[0]


def origin_of(host: str) -> str:
    """The origin of a host, which may stand in brackets."""
    try:
        found = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, IPv6Address):
        return host
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    network = IPv6Address(int(found) >> NETWORK_BITS << NETWORK_BITS)
    return f"[{network}]/{NETWORK_BITS}"
