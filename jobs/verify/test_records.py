"""Names, times and bounds. `python -m unittest` runs it."""

import json
import unittest

from blocks import Position
from records import fit, keyspace_and_table, nanoseconds, served

RECORD = {
    "partition": {
        "namespace": "plays",
        "time_slice": "data_20260328",
        "time_series_id": "wide",
        "time_bucket": 5,
        "event_bucket": 3,
    },
    "served": [
        {
            "span": {"start": "2026-03-28T00:00:00Z", "end": "2026-03-29T00:00:00Z"},
            "generation": 2,
            "strategy": {"kind": "time_range"},
            "pieces": [
                {
                    "ordinal": 7,
                    "newest": {"time": "2026-03-28T10:00:00.000000009Z", "id": "b"},
                    "oldest": {"time": "2026-03-28T10:00:00Z", "id": "a"},
                }
            ],
        }
    ],
}


def piece_of(strategy: dict):
    record = json.loads(json.dumps(RECORD))
    record["served"][0]["strategy"] = strategy
    return served([json.dumps(record).encode()])[1][0]


class Records(unittest.TestCase):
    def test_times_are_read_to_the_nanosecond_on_both_sides_of_the_epoch(self):
        self.assertEqual(nanoseconds("1970-01-01T00:00:01.5Z"), 1_500_000_000)
        self.assertEqual(nanoseconds("1969-12-31T23:59:59.999999999Z"), -1)
        self.assertEqual(nanoseconds("1678-01-01T00:00:00Z"), -9214560000000000000)
        self.assertRaises(ValueError, nanoseconds, "yesterday")

    def test_a_piece_lies_where_its_original_and_its_number_say(self):
        segments, pieces = served([json.dumps(RECORD).encode()])
        self.assertEqual((segments[0].event_bucket, segments[0].end - segments[0].start), (3, 86_400_000_000_000))
        self.assertEqual((pieces[0].table, pieces[0].event_bucket), ("wide_data_20260328_2", 3 * 2**20 + 7))

    def test_bounds_are_inside_and_what_is_beyond_them_is_not(self):
        piece = piece_of({"kind": "time_range"})
        for position in (piece.newest, piece.oldest):
            self.assertIsNone(piece.why_not_here(position))
        for position in (Position(piece.newest.time, "c"), Position(piece.oldest.time, "Z")):
            self.assertIn("bounds", piece.why_not_here(position))

    def test_an_event_that_is_spread_by_hash_is_at_home_in_one_piece(self):
        at_home = []
        for first in range(8):
            piece = piece_of({"kind": "event_bucket", "pieces": 8, "first_ordinal": first, "event_buckets": 3})
            at_home.append(piece.why_not_here(piece.newest) is None)
        self.assertEqual(sum(at_home), 1)
        self.assertRaises(ValueError, piece_of, {"kind": "by_magic"})

    def test_names_are_those_of_the_store(self):
        table = "data_20260328"
        self.assertEqual(keyspace_and_table("anabranch", "plays", table, False), ("anabranch_plays", table))
        self.assertEqual(keyspace_and_table("anabranch", "plays", table, True), ("anabranch", "plays__" + table))
        self.assertEqual(len(fit("n" * 49)), 48)
        self.assertNotEqual(fit("n" * 48 + "a"), fit("n" * 48 + "b"))


if __name__ == "__main__":
    unittest.main()
