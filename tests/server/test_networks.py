"""Networks: whom a list has in it, and whose header field is believed."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import ip_addresses
from surebayes.errors import BadConfig
from surebayes.server.networks import Networks, SignOn


@given(st.lists(st.tuples(ip_addresses(), st.integers(0, 128)), max_size=4), ip_addresses())
def test_a_peer_is_in_a_list_if_it_shares_the_leading_bits_of_an_entry(entries, peer):
    entries = [(address, min(bits, address.max_prefixlen)) for address, bits in entries]
    networks = [ipaddress.ip_network((address, bits), strict=False) for address, bits in entries]
    known = Networks.parse(", ".join(map(str, networks)))

    def shares(address, bits):
        mapped = getattr(peer, "ipv4_mapped", None) or peer
        shift = address.max_prefixlen - bits
        return mapped.version == address.version and int(mapped) >> shift == int(address) >> shift

    assert ((str(peer), 25) in known) == any(shares(*entry) for entry in entries)
    if peer.version == 4:
        assert ((f"::ffff:{peer}", 25, 0, 0) in known) == ((str(peer), 25) in known)


@pytest.mark.parametrize("peer", ["", None, (), ("", 1), ("testclient", 1), ("192.0.2.1.evil.example", 1), ("unix", 1)])
def test_what_is_no_address_is_in_no_network(peer):
    assert peer not in Networks.parse("0.0.0.0/0 ::/0")


def test_unix_sockets_by_their_word():
    assert "" in Networks.parse("unix")
    assert "" not in Networks.parse("127.0.0.1")
    assert ("127.0.0.1", 1) not in Networks.parse("unix")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("192.0.2.7/24", "Write 192.0.2.0/24 for the network, or 192.0.2.7 for the address"),
        ("mail.example.org", "such as 192.0.2.7"),
        ("10.", "such as"),
        ("192.0.2.0/33", "such as"),
        ("192.0.2.01", "such as"),
    ],
)
def test_a_wrong_entry_gets_advice(text, advice):
    with pytest.raises(BadConfig, match=advice):
        Networks.parse(f"10.0.0.0/8, {text}")


@pytest.mark.parametrize(
    "text",
    ["", "X-Remote-User", "X-Remote-User:", ": 192.0.2.1", "X Remote: 192.0.2.1", "Host: 192.0.2.1",
     "authorization: 192.0.2.1", "X_Remote_User: 192.0.2.1", "X-Remote-User: proxy.example"],
)  # fmt: skip
def test_a_wrong_sign_on_is_refused(text):
    with pytest.raises(BadConfig, match="sign_on"):
        SignOn.parse(text)


def test_a_name_is_believed_from_a_proxy_alone():
    known = SignOn.parse("Remote-User: 192.0.2.1, 2001:db8::/64")
    assert known.name_in(("192.0.2.1", 1), ["ann"]) == "ann"
    assert known.name_in(("2001:db8::5", 1, 0, 0), [" ann "]) == "ann"
    for stranger in (("192.0.2.2", 1), ("127.0.0.1", 1), "", None):
        assert known.name_in(stranger, ["ann"]) is None
        assert known.name_in(stranger, ["ann", "bob"]) is None
    assert known.name_in(("192.0.2.1", 1), []) is None
    assert known.name_in(("192.0.2.1", 1), [""]) is None
    with pytest.raises(ValueError, match="2 fields"):
        known.name_in(("192.0.2.1", 1), ["ann", "ann"])
