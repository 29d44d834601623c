"""Split records as they lie in the store's metadata (docs/formats.md, Splits), and the partitions that they name."""

import calendar
import json
import re
import time
from typing import NamedTuple, Optional

import xxhash

from blocks import Position

SHARDS = 16
STRIDE = 1 << 20
MAX_LETTERS = 48
TIME = re.compile(r"(-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


class Spread(NamedTuple):
    """How a segment's events are spread over its pieces by hash."""

    pieces: int
    first_ordinal: int
    event_buckets: int


class Piece(NamedTuple):
    """A piece of a served segment, and where it lies."""

    table: str
    series: str
    time_bucket: int
    event_bucket: int
    original: int
    segment: int
    ordinal: int
    start: int
    end: int
    newest: Position
    oldest: Position
    spread: Optional[Spread]

    def why_not_here(self, position: Position) -> Optional[str]:
        """Why a row at this position doesn't belong into the piece, if it doesn't."""
        if not self.oldest <= position <= self.newest:
            return "outside of the bounds of its piece"
        if not self.start <= position.time < self.end:
            return "outside of the span of its segment"
        if self.spread is not None:
            hash = xxhash.xxh3_64_intdigest(position.time.to_bytes(8, "big", signed=True) + position.id.encode())
            bucket = hash // max(self.spread.event_buckets, 1) % max(self.spread.pieces, 1)
            if self.spread.first_ordinal + bucket != self.ordinal:
                return "in another piece than its hash says"
        return None


class Segment(NamedTuple):
    """A span of an original that is served from pieces."""

    series: str
    time_bucket: int
    event_bucket: int
    segment: int
    start: int
    end: int


def keyspace_and_table(prefix: str, namespace: str, table: str, shared: bool) -> tuple[str, str]:
    """Where a table of a namespace lies in Cassandra."""
    if shared:
        return prefix, fit(f"{namespace}__{table}")
    return fit(f"{prefix}_{namespace}"), fit(table)


def fit(name: str) -> str:
    """The name, or as much of it as fits with a hash that tells it from others that begin so."""
    if len(name) <= MAX_LETTERS:
        return name
    hash = f"_{xxhash.xxh3_64_intdigest(name.encode()):016x}"
    return name[: MAX_LETTERS - len(hash)] + hash


def scopes(namespace: str, time_slice: str) -> list[str]:
    """Where the records of a slice are."""
    return [f"wide_row/{namespace}/{time_slice}/{shard:02x}" for shard in range(SHARDS)]


def nanoseconds(text: str) -> int:
    """Since the Unix epoch."""
    match = TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is no time")
    seconds = calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S"))
    return seconds * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))


def served(documents: list[bytes]) -> tuple[list[Segment], list[Piece]]:
    """The segments that reads may use, of all records, and their pieces."""
    segments, pieces = [], []
    for record in map(json.loads, documents):
        partition = record["partition"]
        for number, segment in enumerate(record["served"]):
            key = (partition["time_series_id"], partition["time_bucket"])
            original = partition["event_bucket"]
            span = (nanoseconds(segment["span"]["start"]), nanoseconds(segment["span"]["end"]))
            segments.append(Segment(*key, original, number, *span))
            table = f"wide_{partition['time_slice']}_{segment['generation']}"
            for piece in segment["pieces"]:
                ordinal = piece["ordinal"]
                place = (table, *key, original * STRIDE + ordinal, original, number, ordinal)
                bounds = (position(piece["newest"]), position(piece["oldest"]))
                pieces.append(Piece(*place, *span, *bounds, spread(segment["strategy"])))
    return segments, pieces


def position(stored: dict) -> Position:
    return Position(nanoseconds(stored["time"]), stored["id"])


def spread(strategy: dict) -> Optional[Spread]:
    """`None` for contiguous pieces; what nobody knows here is refused, for it can't be proven."""
    if strategy["kind"] == "time_range":
        return None
    if strategy["kind"] == "event_bucket":
        return Spread(strategy["pieces"], strategy["first_ordinal"], strategy["event_buckets"])
    raise ValueError(f"the strategy `{strategy['kind']}` is not known")
