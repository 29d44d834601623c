"""What the job makes of stored rows. `python -m unittest` runs it."""

import unittest
from collections import namedtuple

from blocks import Position
from records import Piece
from verify import UNPACKED, unpack

Stored = namedtuple("Stored", "number event_time event_id event_item_key value metadata")
PIECE = Piece("wide", "a", 5, 3, 3, 0, 7, 0, 100, Position(99, "z"), Position(0, ""), None)


class Unpacked(unittest.TestCase):
    def test_a_value_that_is_null_is_a_damaged_row_and_not_the_end_of_the_job(self):
        rows = [Stored(0, 9, "e", key, None, None) for key in ("", "k")] + [Stored(0, 8, "e", "k", b"", None)]
        found = [dict(zip(UNPACKED.names, row)) for row in unpack(iter(rows), [PIECE])]
        self.assertEqual([row["damaged"] for row in found], ["its value is null"] * 2 + [None])
        self.assertEqual([row["event_time"] for row in found], [9, 9, 8])
        self.assertEqual(found[2]["value"], b"")


if __name__ == "__main__":
    unittest.main()
