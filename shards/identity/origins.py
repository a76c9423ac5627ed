"""Where a client comes from, as far as it is counted: what one party has at least.

An IPv4 address is one origin. Of an IPv6 address it is the network of 64 bits: nobody is given
less, and who has it has 2**64 addresses.
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
