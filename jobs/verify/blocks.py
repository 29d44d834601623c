"""Reads blocks, the packed form of pieces, as docs/blocks.md describes them. Knows nothing of Spark or Cassandra."""

import struct
from typing import Iterator, NamedTuple, Optional

import lz4.block
import xxhash
import zstandard

FORMAT_VERSION = 1
CODEC_NONE, CODEC_LZ4, CODEC_ZSTD = range(3)
SECTIONS = 5
MAX_RAW_BYTES = 64 << 20
MAX_ID_BYTES = 4096


class Damaged(Exception):
    """The bytes are no block, or not the block that belongs here."""


class Position(NamedTuple):
    """A place in a history. Ids compare by code point, which is the order of their UTF-8 bytes."""

    time: int
    id: str


class Row(NamedTuple):
    """One item of an event."""

    position: Position
    key: str
    value: bytes
    metadata: Optional[bytes]


class Header(NamedTuple):
    """What a block says of itself in the metadata of its row."""

    rows: int
    newest: Position
    above: Optional[Position]


class Reader:
    """Numbers and bytes, one after the other. Whatever is cut short is damaged."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def bytes(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise Damaged("it is cut short")
        taken, self.at = self.data[self.at : end], end
        return taken

    def number(self, form: str) -> int:
        return struct.unpack(form, self.bytes(struct.calcsize(form)))[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.bytes(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise Damaged("a number has too many bytes")
        if value >> 64:
            raise Damaged("a number is too large")
        return value

    def position(self) -> Position:
        time = self.number(">q")
        return Position(time, text(self.bytes(self.number(">H"))))

    def is_at_end(self) -> bool:
        return self.at == len(self.data)

    def end(self) -> None:
        if not self.is_at_end():
            raise Damaged("bytes are left over")


def text(data: bytes) -> str:
    """An id or a key."""
    if not 0 < len(data) <= MAX_ID_BYTES or b"\0" in data:
        raise Damaged("an id or a key is empty, too long, or holds U+0000")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged("an id or a key isn't UTF-8") from error


def read_header(metadata: bytes) -> Header:
    """The header, which can be read without the value."""
    reader = Reader(metadata)
    if reader.number(">B") != FORMAT_VERSION:
        raise Damaged("the header has another version")
    rows, newest = reader.number(">I"), reader.position()
    above = None if reader.is_at_end() else reader.position()
    reader.end()
    return Header(rows, newest, above)


def read_block(position: Position, value: bytes, metadata: Optional[bytes]) -> list[Row]:
    """The rows of a block in table order; proves that it is the one that its row announces."""
    if metadata is None:
        raise Damaged("it has no header")
    header, rows = read_header(metadata), read_value(value)
    if (header.rows, header.newest, position) != (len(rows), rows[0].position, rows[-1].position):
        raise Damaged("rows, newest or oldest position aren't those of the row around it")
    if header.above is not None and header.above <= header.newest:
        raise Damaged("the event above it isn't above it")
    return rows


def read_value(value: bytes) -> list[Row]:
    """The rows of a block's value, in table order."""
    if len(value) < 8 or xxhash.xxh3_64_intdigest(value[:-8]) != int.from_bytes(value[-8:], "big"):
        raise Damaged("its checksum is wrong")
    reader = Reader(value[:-8])
    if reader.number(">B") != FORMAT_VERSION:
        raise Damaged("it has another version")
    codec, rows, events = reader.number(">B"), reader.number(">I"), reader.number(">I")
    if codec not in (CODEC_NONE, CODEC_LZ4, CODEC_ZSTD):
        raise Damaged("it has another codec")
    lengths = [(reader.number(">I"), reader.number(">I")) for _ in range(SECTIONS)]
    if sum(raw for _, raw in lengths) > MAX_RAW_BYTES:
        raise Damaged("it is too large when decoded")
    # Every event has a byte in the positions, every row one in the sizes.
    if not 1 <= events <= lengths[0][1] or not events <= rows <= lengths[2][1]:
        raise Damaged("rows or events aren't possible")
    sections = [decode(codec, reader.bytes(stored), raw) for stored, raw in lengths]
    reader.end()
    positions, counts = read_positions(Reader(sections[0]), rows, events)
    keys = read_keys(Reader(sections[1]), rows)
    values, metadata = read_items(Reader(sections[2]), rows, Reader(sections[3]), Reader(sections[4]))
    return list(in_table_order(positions, counts, keys, values, metadata))


def decode(codec: int, data: bytes, raw: int) -> bytes:
    """A section. One whose lengths are equal is stored as it is."""
    if len(data) == raw:
        return data
    if codec == CODEC_NONE or len(data) > raw:
        raise Damaged("the lengths of a section can't be")
    try:
        if codec == CODEC_LZ4:
            decoded = lz4.block.decompress(data, uncompressed_size=raw)
        else:
            if zstandard.frame_content_size(data) != raw:
                raise Damaged("a section states another length")
            decoded = zstandard.ZstdDecompressor().decompress(data, max_output_size=raw)
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise Damaged(f"a section can't be decoded: {error}") from error
    if len(decoded) != raw:
        raise Damaged("a section has another length")
    return decoded


def read_positions(reader: Reader, rows: int, events: int) -> tuple[list[Position], list[int]]:
    """Positions, and the number of items of each."""
    time, unit = reader.number(">q"), reader.varint()
    times = [time]
    for _ in range(events - 1):
        time -= reader.varint() * unit
        times.append(time)
    counts = [reader.varint() for _ in range(events)] if rows > events else [1] * events
    if min(counts) < 1 or sum(counts) != rows:
        raise Damaged("the numbers of items don't add up")
    shared = [reader.varint() for _ in range(events)]
    rest = [reader.varint() for _ in range(events)]
    positions, last, total = [], b"", 0
    for time, kept, more in zip(times, shared, rest):
        if kept > len(last):
            raise Damaged("an id shares more than there is")
        last = last[:kept] + reader.bytes(more)
        total += len(last)
        if total > MAX_RAW_BYTES:
            raise Damaged("its ids are too long together")
        positions.append(Position(time, text(last)))
    reader.end()
    return positions, counts


def read_keys(reader: Reader, rows: int) -> list[str]:
    """The key of each row."""
    count = reader.varint()
    if not 1 <= count <= rows:
        raise Damaged("it has no keys, or too many")
    lengths = [reader.varint() for _ in range(count)]
    keys = [text(reader.bytes(length)) for length in lengths]
    if any(left >= right for left, right in zip(keys, keys[1:])):
        raise Damaged("its keys are out of order")
    indexes = [reader.varint() for _ in range(rows)] if count > 1 else [0] * rows
    if max(indexes) >= count:
        raise Damaged("a row has a key that isn't there")
    reader.end()
    return [keys[index] for index in indexes]


def read_items(
    sizes: Reader, rows: int, metadata: Reader, values: Reader
) -> tuple[list[bytes], list[Optional[bytes]]]:
    """The value and the metadata of each row."""
    value_sizes = [sizes.varint() for _ in range(rows)]
    metadata_sizes = [0] * rows if sizes.is_at_end() else [sizes.varint() for _ in range(rows)]
    sizes.end()
    found = [None if size == 0 else metadata.bytes(size - 1) for size in metadata_sizes]
    metadata.end()
    all_values = [values.bytes(size) for size in value_sizes]
    values.end()
    return all_values, found


def in_table_order(positions, counts, keys, values, metadata) -> Iterator[Row]:
    """Rows, as long as events descend and the keys of an event ascend."""
    at, above = 0, None
    for position, count in zip(positions, counts):
        if above is not None and position >= above:
            raise Damaged("its events are out of order")
        above, last = position, ""
        for row in range(at, at + count):
            if keys[row] <= last:
                raise Damaged("the items of an event are out of order")
            last = keys[row]
            yield Row(position, keys[row], values[row], metadata[row])
        at += count
