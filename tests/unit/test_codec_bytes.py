"""The bytes of the payload codec: what stands in them, and what is said of bytes that cannot be decoded."""

from __future__ import annotations

import json
import math
import sys
import zlib

import pytest

from dynadurable.errors import PayloadTooLargeError, PayloadUnreadableError
from dynadurable.model import codec
from dynadurable.model.codec import check_size, decode, encode
from tests.unit.codec_samples import VALUES


def test_plain_json_is_stored_as_it_is() -> None:
    assert encode({"molt_id": "m1"}) == b'1j{"molt_id":"m1"}'
    assert encode({"é": [1, None, True]}) == '1j{"é":[1,null,true]}'.encode()


def test_what_json_lacks_is_tagged() -> None:
    assert encode({"at": (1,), "n": math.nan}) == b'1t{"at":{"$tuple":[1]},"n":{"$float":"nan"}}'


@pytest.mark.parametrize("name", [name for name in VALUES if name != "lone surrogates"])
def test_the_text_is_strict_json_in_utf_8(name: str) -> None:
    data = encode(VALUES[name])
    text = zlib.decompress(data[2:]) if data[1:2].isupper() else data[2:]
    json.loads(text.decode("utf-8"), parse_constant=lambda constant: pytest.fail(constant))


def test_bytes_are_compressed_only_when_that_makes_them_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encode("x" * 450_000)[:2] == b"1J"
    assert len(encode("x" * 450_000)) < 1_000
    assert encode([("x" * 450_000,)])[:2] == b"1T"
    short = "x" * (codec.COMPRESS_FROM_BYTES - 3)
    assert encode(short)[:2] == b"1j"
    monkeypatch.setattr(codec, "COMPRESS_FROM_BYTES", 0)
    assert encode("abc")[:2] == b"1j"
    assert encode(("abc",))[:2] == b"1t"
    assert encode(short)[:2] == b"1J"


# --- unreadable bytes -----------------------------------------------------------------------------

GOOD = encode([("x" * 1_000,)])

UNREADABLE: dict[str, bytes] = {
    "nothing": b"",
    "only a version": b"1",
    "an unknown version": b"2j1",
    "a hand-written item": b'{"__v": 99, "data": "???"}',
    "an unknown kind": b"1x{}",
    "a pickle": b"\x80\x04K\x01.",
    "no text": b"1j",
    "cut text": b'1j{"a":',
    "two texts": b"1j1 2",
    "bad UTF-8": b'1j"\xff"',
    "NaN written bare": b"1jNaN",
    "infinity written bare": b"1t[-Infinity]",
    "a decimal integer of 5,000 digits": b"1j" + b"1" * 5_000,
    "deep nesting": b"1j" + b"[" * 200_000,
    "deep nesting of tags": b"1t" + b'{"$tuple":[' * 50_000,
    "cut compressed text": GOOD[:-1],
    "compressed text with more behind it": GOOD + b"x",
    "a flipped bit in compressed text": GOOD[:10] + bytes([GOOD[10] ^ 1]) + GOOD[11:],
    "not compressed at all": b"1J{}",
    "an unknown tag": b'1t{"$pickle":"x"}',
    "odd dict": b'1t{"$dict":[1]}',
    "a dict with a key twice": b'1t{"$dict":[1,2,1,3]}',
    "an unhashable key": b'1t{"$dict":[[],1]}',
    "an unhashable element": b'1t{"$set":[[1]]}',
    "a tuple of text": b'1t{"$tuple":"ab"}',
    "bad base64": b'1t{"$bytes":"*"}',
    "bad float": b'1t{"$float":"1e5"}',
    "bad int": b'1t{"$int":"xyz"}',
    "bad decimal": b'1t{"$decimal":"one"}',
    "bad date": b'1t{"$date":"2027-02-30"}',
    "bad datetime": b'1t{"$datetime":"yesterday"}',
    "short datetime": b'1t{"$datetime":["2027-01-01"]}',
    "a zone without offset": b'1t{"$datetime":["2027-01-01T00:00:00",0,"Europe/Berlin",null]}',
    "an unknown zone": b'1t{"$datetime":["2027-01-01T00:00:00+00:00",0,"Mars/Olympus",null]}',
    "a zone that is a path": b'1t{"$datetime":["2027-01-01T00:00:00+00:00",0,"../../etc/passwd",null]}',
    "a zone that is a folder": b'1t{"$datetime":["2027-01-01T00:00:00+00:00",0,"Europe",null]}',
    "a zone that is a list": b'1t{"$datetime":["2027-01-01T00:00:00+00:00",0,[7],null]}',
    "a span too long": b'1t{"$timedelta":[1000000000000,0,0]}',
    "bad uuid": b'1t{"$uuid":"x"}',
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_bytes_that_cannot_be_decoded_say_so_and_are_kept(name: str) -> None:
    """PUB-11."""
    data = UNREADABLE[name]
    with pytest.raises(PayloadUnreadableError) as caught:
        decode(data)
    assert caught.value.raw == data
    assert caught.value.reason
    assert len(caught.value.reason) < 400


def test_an_unknown_version_is_named() -> None:
    with pytest.raises(PayloadUnreadableError, match=r"format version b'7' is not known"):
        decode(b"7j1")


def test_every_cut_of_good_bytes_is_unreadable() -> None:
    for value in ({"a": (1, "x"), "b": [b"y"]}, [("x" * 1_000,)], "text"):
        data = encode(value)
        for length in range(len(data)):
            with pytest.raises(PayloadUnreadableError):
                decode(data[:length])


def test_a_small_payload_that_would_unpack_to_too_much_is_unreadable() -> None:
    bomb = b"1J" + zlib.compress(b'"' + bytes([120]) * (codec.MAX_TEXT_BYTES + 1), 1)
    assert len(bomb) < 400_000
    with pytest.raises(PayloadUnreadableError, match="more than 67,108,864 bytes"):
        decode(bomb)


def test_both_ways_refuse_the_same_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_TEXT_BYTES", 1_000)
    for value, fits in (("x" * 998, True), ("x" * 999, False)):
        data = b'1j"' + value.encode() + b'"'
        packed = b"1J" + zlib.compress(data[2:])
        if fits:
            assert decode(encode(value)) == decode(data) == decode(packed) == value
            continue
        with pytest.raises(PayloadTooLargeError, match="order takes 1,001 bytes"):
            encode(value, path="order")
        for unreadable in (data, packed):
            with pytest.raises(PayloadUnreadableError, match="more than 1,000 bytes"):
                decode(unreadable)


def test_check_size_names_size_and_limit() -> None:
    check_size(b"xxx", "the input", 3)
    with pytest.raises(PayloadTooLargeError, match="the input takes 4 bytes, the limit is 3 bytes") as caught:
        check_size(b"xxxx", "the input", 3)
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (4, 3)


def test_python_s_own_digit_limit_does_not_matter() -> None:
    value = {"n": 10**600, "m": [10**5_000]}
    data, limit = encode(value), sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(640)
        assert decode(data) == value
        assert encode(value) == data
    finally:
        sys.set_int_max_str_digits(limit)
