"""The test vectors of docs/blocks.md, and blocks that must be refused. `python -m unittest` runs it."""

import pathlib
import re
import unittest

import xxhash

from blocks import Damaged, Header, Position, Row, read_block, read_header, read_value

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "blocks.md"
VECTORS = [bytes.fromhex("".join(text.split())) for text in re.findall(r"```\n([0-9a-f\s]+)```", PAGE.read_text())]
HEADER, HEADER_BELOW, *VALUES = VECTORS

NEWEST = Position(1774692000123000000, "e-12")
OLDEST = Position(1774691998623000000, "f")
ROWS = [
    Row(NEWEST, "status", b"done", b"text"),
    Row(NEWEST, "title", b'{"title":"' + b" ".join([b"Dune"] * 12) + b'"}', None),
    Row(Position(1774692000123000000, "e-11"), "status", b"", b""),
    Row(OLDEST, "status", b"done", None),
]


def sealed(body: bytes) -> bytes:
    return body + xxhash.xxh3_64_digest(body)


class Blocks(unittest.TestCase):
    def test_every_codec_gives_the_rows_of_the_page(self):
        self.assertEqual([value[1] for value in VALUES], [0, 1, 2])
        for value in VALUES:
            self.assertEqual(read_value(value), ROWS)
            self.assertEqual(read_block(OLDEST, value, HEADER), ROWS)
            self.assertEqual(read_block(OLDEST, value, HEADER_BELOW), ROWS)

    def test_the_header_is_read_without_the_value(self):
        self.assertEqual(read_header(HEADER), Header(4, NEWEST, None))
        self.assertEqual(read_header(HEADER_BELOW), Header(4, NEWEST, Position(1774692001123000000, "g")))

    def test_a_byte_that_changed_is_noticed_wherever_it_is(self):
        for value in VALUES:
            for at in range(len(value)):
                altered = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
                self.assertRaises(Damaged, read_value, altered)

    def test_what_is_wrong_is_refused_though_its_checksum_is_right(self):
        for value in VALUES:
            body = value[:-8]
            for end in range(len(body)):
                self.assertRaises(Damaged, read_value, sealed(body[:end]))
            self.assertRaises(Damaged, read_value, sealed(body + b"\0"))
            for at, byte in [(0, 2), (1, 3), (5, 9), (9, 0)]:  # version, codec, rows, events
                self.assertRaises(Damaged, read_value, sealed(body[:at] + bytes([byte]) + body[at + 1 :]))

    def test_no_change_of_a_byte_ends_in_anything_but_rows_or_damage(self):
        for value in VALUES:
            body = value[:-8]
            for at in range(len(body)):
                for byte in (0, 0x7F, 0x80, 0xFF):
                    try:
                        rows = read_value(sealed(body[:at] + bytes([byte]) + body[at + 1 :]))
                    except Damaged:
                        continue
                    for above, below in zip(rows, rows[1:]):
                        same_event = above.position == below.position and above.key < below.key
                        self.assertTrue(above.position > below.position or same_event)

    def test_a_block_under_another_key_is_damaged(self):
        self.assertRaises(Damaged, read_block, NEWEST, VALUES[0], HEADER)
        self.assertRaises(Damaged, read_block, OLDEST, VALUES[0], None)
        other = HEADER.replace(b"e-12", b"e-13")
        self.assertRaises(Damaged, read_block, OLDEST, VALUES[0], other)


if __name__ == "__main__":
    unittest.main()
