"""Proves that the pieces of a slice hold the same rows as the originals, value bytes included, and writes a report.

Only reads. Ends with 0 when both sides are the same, 1 when anything differs, 2 when that could not be found out.
"""

import argparse
import json
import pathlib
import sys
from collections import defaultdict
from typing import Iterator

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

import blocks
import records

SAME, DIFFERENT, UNKNOWN = range(3)
HERE = pathlib.Path(__file__).parent
CASSANDRA = "org.apache.spark.sql.cassandra"

# A row of a history. `event_bucket` is the original's, on both sides.
KEY = ["time_series_id", "time_bucket", "event_bucket", "segment", "event_time", "event_id", "event_item_key"]
CONTENT = ["value", "metadata"]


def field(name: str, kind) -> StructField:
    return StructField(name, kind, True)


SEGMENT = StructType(
    [
        field("time_series_id", StringType()),
        field("time_bucket", LongType()),
        field("event_bucket", LongType()),
        field("segment", IntegerType()),
        field("start", LongType()),
        field("end", LongType()),
    ]
)
PIECE = StructType(
    [
        field("time_series_id", StringType()),
        field("time_bucket", LongType()),
        field("event_bucket", LongType()),
        field("number", IntegerType()),
    ]
)
UNPACKED = StructType(
    [
        field("time_series_id", StringType()),
        field("time_bucket", LongType()),
        field("event_bucket", LongType()),
        field("segment", IntegerType()),
        field("event_time", LongType()),
        field("event_id", StringType()),
        field("event_item_key", StringType()),
        field("value", BinaryType()),
        field("metadata", BinaryType()),
        field("piece", IntegerType()),
        field("misplaced", StringType()),
        field("damaged", StringType()),
    ]
)


class Tables:
    """The tables of one store, to be read only."""

    def __init__(self, spark: SparkSession, args: argparse.Namespace):
        self.spark, self.args = spark, args

    def documents(self) -> list[bytes]:
        """The split records of the slice. They are committed at QUORUM, so a quorum has them all."""
        scopes = records.scopes(self.args.namespace, self.args.slice)
        table = self.load(self.args.keyspace_prefix, "documents", "QUORUM")
        return [bytes(row.value) for row in table.where(F.col("scope").isin(scopes)).select("value").collect()]

    def rows(self, table: str) -> DataFrame:
        """A table of rows: originals, or the pieces of a generation."""
        args = self.args
        place = records.keyspace_and_table(args.keyspace_prefix, args.namespace, table, args.shared_keyspace)
        loaded = self.load(*place, args.consistency)
        item = F.col("event_item")
        content = [item.getField("0").alias("value"), item.getField("1").alias("metadata")]
        return loaded.select(*(name for name in KEY if name != "segment"), *content)

    def load(self, keyspace: str, table: str, consistency: str) -> DataFrame:
        reader = self.spark.read.format(CASSANDRA).options(keyspace=keyspace, table=table)
        return reader.option("spark.cassandra.input.consistency.level", consistency).load()


def originals(tables: Tables, time_slice: str, segments: list[records.Segment]) -> DataFrame:
    """The rows of the originals within the spans of the served segments."""
    spans = tables.spark.createDataFrame(segments, SEGMENT)
    rows = tables.rows(time_slice).join(F.broadcast(spans), ["time_series_id", "time_bucket", "event_bucket"])
    inside = (F.col("event_time") >= F.col("start")) & (F.col("event_time") < F.col("end"))
    return rows.where(inside).select(*KEY, *CONTENT)


def unpacked(tables: Tables, pieces: list[records.Piece]) -> DataFrame:
    """Every row of every piece, whether packed or not, and what is wrong with it."""
    spark = tables.spark
    shared = spark.sparkContext.broadcast(pieces)
    by_table = defaultdict(list)
    for number, piece in enumerate(pieces):
        by_table[piece.table].append((piece.series, piece.time_bucket, piece.event_bucket, number))
    found = None
    for table, keys in sorted(by_table.items()):
        keys = F.broadcast(spark.createDataFrame(keys, PIECE))
        rows = tables.rows(table).join(keys, ["time_series_id", "time_bucket", "event_bucket"])
        rows = rows.rdd.mapPartitions(lambda part: unpack(part, shared.value))
        rows = spark.createDataFrame(rows, UNPACKED)
        found = rows if found is None else found.unionByName(rows)
    return found


def unpack(stored: Iterator, pieces: list[records.Piece]) -> Iterator[tuple]:
    """The rows that stored rows hold: a block holds many, another row is one."""
    for row in stored:
        piece = pieces[row.number]
        key = (piece.series, piece.time_bucket, piece.original, piece.segment)
        position = blocks.Position(row.event_time, row.event_id)
        metadata = None if row.metadata is None else bytes(row.metadata)
        try:
            if row.value is None:
                raise blocks.Damaged("its value is null")
            value = bytes(row.value)
            held = [blocks.Row(position, row.event_item_key, value, metadata)]
            if row.event_item_key == "":
                held = blocks.read_block(position, value, metadata)
        except blocks.Damaged as error:
            yield (*key, *position, "", None, None, piece.ordinal, None, str(error))
            continue
        for one in held:
            wrong = piece.why_not_here(one.position)
            yield (*key, *one.position, one.key, one.value, one.metadata, piece.ordinal, wrong, None)


def differences(original: DataFrame, split: DataFrame) -> DataFrame:
    """Whatever isn't the same on both sides, one row each: `kind`, the key, both contents."""
    rows = split.where("damaged IS NULL")
    content = rows.select(*KEY, *CONTENT)
    # As multisets: a row that is there twice differs from one that is there once.
    only_original = renamed(original.exceptAll(content), "original")
    only_split = renamed(content.exceptAll(original), "split")
    both = only_original.join(only_split, KEY, "full_outer").withColumn("piece", F.lit(None).cast("int"))
    kind = F.when(F.col("in_split").isNull(), "missing").when(F.col("in_original").isNull(), "extra")
    contents = [f"{side}_{name}" for side in ("original", "split") for name in CONTENT]
    unequal = both.select(kind.otherwise("altered").alias("kind"), *KEY, "piece", *contents, reason(None))
    bad = lambda name: (
        split.where(f"{name} IS NOT NULL")
        .select(F.lit(name).alias("kind"), *KEY, "piece", *(empty(name) for name in contents), reason(name))
    )
    return unequal.unionByName(bad("misplaced")).unionByName(bad("damaged"))


def renamed(rows: DataFrame, side: str) -> DataFrame:
    names = [F.col(name).alias(f"{side}_{name}") for name in CONTENT]
    return rows.select(*KEY, *names, F.lit(True).alias(f"in_{side}"))


def empty(name: str):
    return F.lit(None).cast("binary").alias(name)


def reason(column):
    return (F.lit(None).cast("string") if column is None else F.col(column)).alias("reason")


def described(row) -> dict:
    """A difference for the report. Values are told by their length and beginning, to bound it."""
    found = {name: row[name] for name in ("kind", *KEY, "piece", "reason") if row[name] is not None}
    for side in ("original", "split"):
        for name in CONTENT:
            content = row[f"{side}_{name}"]
            if content is not None:
                found[f"{side}_{name}"] = {"bytes": len(content), "begins_hex": bytes(content[:32]).hex()}
    return found


def verify(spark: SparkSession, args: argparse.Namespace) -> dict:
    """Compares, and answers the report."""
    tables = Tables(spark, args)
    segments, pieces = records.served(tables.documents())
    if not segments:
        raise SystemExit(f"nothing of `{args.slice}` in `{args.namespace}` is served from pieces: nothing to compare")
    original = originals(tables, args.slice, segments).persist(StorageLevel.MEMORY_AND_DISK)
    split = unpacked(tables, pieces).persist(StorageLevel.MEMORY_AND_DISK)
    found = differences(original, split).persist(StorageLevel.MEMORY_AND_DISK)
    counts = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
    kinds = ("missing", "extra", "altered", "misplaced", "damaged")
    shown = found.orderBy(*KEY, "kind").limit(args.max_differences).collect() if counts else []
    return {
        "namespace": args.namespace,
        "slice": args.slice,
        "partitions": len({segment[:3] for segment in segments}),
        "segments": len(segments),
        "pieces": len(pieces),
        "rows": {"original": original.count(), "split": split.where("damaged IS NULL").count()},
        "differences": {kind: counts.get(kind, 0) for kind in kinds},
        "first_differences": [described(row) for row in shown],
    }


def start(args: argparse.Namespace) -> SparkSession:
    """A session. What `spark-submit --conf` says stays as it is."""
    builder = SparkSession.builder.appName(f"anabranch verify {args.namespace} {args.slice}")
    builder = builder.config("spark.cassandra.connection.host", args.contact_points)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    for module in ("blocks.py", "records.py"):
        spark.sparkContext.addPyFile(str(HERE / module))
    return spark


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("namespace")
    parser.add_argument("slice", help="the slice's table: data_20260328")
    parser.add_argument("--contact-points", required=True, metavar="HOST:PORT[,…]", help="nodes of Cassandra")
    parser.add_argument("--keyspace-prefix", default="anabranch", metavar="NAME")
    parser.add_argument("--shared-keyspace", action="store_true", help="the namespace shares the prefix's keyspace")
    parser.add_argument("--consistency", default="LOCAL_QUORUM", help="to read rows at (LOCAL_QUORUM)")
    parser.add_argument("--report", metavar="FILE", help="where the report goes; else it is printed")
    parser.add_argument("--max-differences", type=int, default=1000, metavar="N", help="most that are listed (1000)")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    args = parse(arguments)
    spark = start(args)
    try:
        report = verify(spark, args)
    finally:
        spark.stop()
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    count = sum(report["differences"].values())
    if args.report is None:
        # Alone: `spark-submit` sends both outputs of a job to one.
        print(text, end="")
    else:
        pathlib.Path(args.report).write_text(text, encoding="utf-8")
        print(f"{report['rows']['original']} rows of {report['partitions']} partitions: {count} differences")
    return DIFFERENT if count else SAME


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except SystemExit as error:
        if not isinstance(error.code, str):
            raise
        print(f"error: {error.code}", file=sys.stderr)
        status = UNKNOWN
    except Exception as error:  # whatever it was, nothing is proven
        # One line for what went wrong in Java; the rest is where in Spark.
        print(f"error: {getattr(error, 'java_exception', error)}", file=sys.stderr)
        status = UNKNOWN
    sys.exit(status)
