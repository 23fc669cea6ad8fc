"""Tables from Parquet files, data frames and mappings of columns."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np

from outtrees._common.files import size_text
from outtrees._common.text import quoted, shown
from outtrees.errors import Option, RecordsError, library
from outtrees.records.files import Source
from outtrees.records.table import Table, check_names

IN_MEMORY = "table in memory"
CELL_BYTES = 8  # of every cell, beside its text


def read_parquet(source: Source, max_bytes: int) -> Table:
    """Return the table of a Parquet file; needs pyarrow or polars.

    A packed column of equal cells takes no room in the file: what the cells take here is counted
    before they are made.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        return _read_parquet_with_polars(source, max_bytes)
    from pyarrow import ArrowException, BufferReader

    try:
        # Bytes that Arrow holds itself, read by this thread alone: of a damaged file, a thread that
        # reads ahead may go on after the reader is gone, and take the process with it.
        file = parquet.ParquetFile(BufferReader(source.data), pre_buffer=False)
        metadata = file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        _check_size(
            source,
            metadata.num_rows,
            metadata.num_columns,
            max_bytes,
            sum(group.total_byte_size for group in groups),
        )
        texts = _check_types(source, file.schema_arrow)
        # As codes into the texts that differ, which take the room that they take in the file.
        file = parquet.ParquetFile(
            BufferReader(source.data), metadata=metadata, read_dictionary=texts, pre_buffer=False
        )
        frame = file.read(use_threads=False)
        letters = sum(_letters(frame.column(name)) for name in texts)
        _check_size(source, metadata.num_rows, metadata.num_columns, max_bytes, letters)
        columns = {name: _cells(frame.column(name)) for name in _named(frame.column_names, source)}
    except (ArrowException, OSError) as error:
        raise RecordsError(f"{source.name} is a damaged Parquet file ({shown(error)})") from None
    return read_frame(columns, source)


def _check_types(source: Source, schema: Any) -> list[str]:
    """Return the columns of text; refuse cells that hold many values, before any is read."""
    from pyarrow import types

    texts = []
    for field in schema:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        packs = (
            types.is_nested,
            types.is_binary,
            types.is_large_binary,
            types.is_fixed_size_binary,
        )
        if any(holds(kind) for holds in packs):
            raise RecordsError(
                f"{source.name}, column {quoted(field.name)}: cells must be numbers, text or "
                f"dates; got type {shown(field.type)}. Drop the column or turn it into text",
                file=source.name,
                column=field.name,
            )
        if types.is_string(kind) or types.is_large_string(kind):
            texts.append(field.name)
    return texts


def _named(names: Sequence[Any], source: Source) -> Sequence[Any]:
    check_names(names, source.name)
    return names


def _letters(column: Any) -> int:
    """Return the bytes of all texts of a column of codes, as often as each occurs."""
    import pyarrow.compute as pc

    total = 0
    for chunk in column.chunks:
        sizes = pc.binary_length(chunk.dictionary).to_numpy(zero_copy_only=False)
        codes = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
        often = np.bincount(codes, minlength=len(sizes)).astype(np.float64)
        total += int(often @ np.nan_to_num(sizes.astype(np.float64)))
    return total


def _cells(column: Any) -> list[Any]:
    from pyarrow import types

    if not types.is_dictionary(column.type):
        return list(column.to_pylist())
    cells: list[Any] = []
    for chunk in column.chunks:
        texts = [*chunk.dictionary.to_pylist(), None]  # each text once
        codes = chunk.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
        cells += [texts[code] for code in codes.tolist()]
    return cells


def _read_parquet_with_polars(source: Source, max_bytes: int) -> Table:
    polars = library(
        "polars",
        f"{source.name} is a Parquet file, which needs pyarrow or polars; install one of them (pip "
        "install pyarrow), or save the table as CSV",
    )
    try:
        lazy = polars.scan_parquet(io.BytesIO(source.data))
        schema = lazy.collect_schema()
        n_rows = lazy.select(polars.len()).collect().item()
        _check_size(source, n_rows, len(schema), max_bytes)
        letters = 0
        for name, kind in schema.items():  # one column at a time
            if kind == polars.String:
                sizes = lazy.select(polars.col(name).str.len_bytes().cast(polars.UInt64).sum())
                letters += int(sizes.collect(engine="streaming").item() or 0)
                _check_size(source, n_rows, len(schema), max_bytes, letters)
        frame = lazy.collect()
    except (polars.exceptions.PolarsError, OSError) as error:
        raise RecordsError(f"{source.name} is a damaged Parquet file ({shown(error)})") from None
    return read_frame(frame, source)


def _check_size(
    source: Source, n_rows: int, n_columns: int, max_bytes: int, letters: int = 0
) -> None:
    size = CELL_BYTES * n_rows * n_columns + letters
    if size > max_bytes:
        raise RecordsError(
            f"{source.name}: {size_text(len(source.data))} open to {n_rows} rows of {n_columns} "
            f"columns, {size_text(size)}; limit {size_text(max_bytes)} (",
            Option("max_bytes"),
            ")",
            file=source.name,
        )


def read_frame(frame: Any, source: Source | None = None) -> Table:
    """Return the table of a pandas, polars or pyarrow data frame, or of a mapping of columns.

    The row names of a pandas frame are kept unless they are mere positions.
    """
    title = source.name if source else IN_MEMORY
    row_names = None
    if hasattr(frame, "keys") and not hasattr(frame, "dtypes"):
        frame = dict(frame)  # a table of results, such as `Ancestry.simulate` returns
    if isinstance(frame, Mapping):
        check_names(list(frame), title)
        columns = {name: _as_list(values, name) for name, values in frame.items()}
        _check_lengths(columns)
    else:
        columns, row_names = _frame_columns(frame, title)
    names = tuple(columns)
    if not names:
        raise RecordsError(f"{title} has no columns; give one at least")
    cells = tuple(
        [cell_text(value, name, row) for row, value in enumerate(values)]
        for name, values in columns.items()
    )
    if not cells[0]:
        raise RecordsError(f"{title} has no data rows")
    if source:
        return Table(names, cells, source.name, source.sha256, None, row_names)
    contents = repr((names, cells, row_names)).encode("utf-8", "backslashreplace")
    return Table(names, cells, None, hashlib.sha256(contents).hexdigest(), None, row_names)


def _frame_columns(frame: Any, title: str) -> tuple[dict[str, list[Any]], list[str] | None]:
    import narwhals as nw

    if hasattr(frame, "columns") and hasattr(frame, "iloc"):
        check_names(list(frame.columns), title)  # pandas: before narwhals' own words
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise TypeError(
            "records must be a path, a pandas or polars data frame or a mapping of "
            f"columns; got {type(frame).__name__}"
        ) from None
    check_names(table.columns, title)
    index = nw.maybe_get_index(table)
    row_names = None
    if index is not None and index.tolist() != list(range(len(index))):
        row_names = [cell_text(name, "row names", row) for row, name in enumerate(index)]
    return {name: table[name].to_list() for name in table.columns}, row_names


def _check_lengths(columns: Mapping[str, Sequence[Any]]) -> None:
    lengths = {name: len(values) for name, values in columns.items()}
    for name, length in lengths.items():
        first = next(iter(lengths))
        if length != lengths[first]:
            raise RecordsError(
                f"columns have different lengths: {quoted(first)} has {lengths[first]}, "
                f"{quoted(name)} has {length}"
            )


def cell_text(value: Any, column: str, row: int) -> str:
    """Return a cell of a frame as text, "" if it is missing; numbers keep every digit."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else repr(float(value))
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas' own missing
        return ""
    if isinstance(value, np.datetime64):
        return "" if np.isnat(value) else str(value)
    if isinstance(value, date):  # a datetime is a date too
        return value.isoformat().removesuffix("T00:00:00")
    if isinstance(value, Decimal):
        return "" if value.is_nan() else str(value)
    raise RecordsError(
        f"row {row}, column {quoted(column)}: a cell must be a number, text or date; got a "
        f"{type(value).__name__}. Drop the column or turn it into text"
    )


def _as_list(values: Any, name: str) -> list[Any]:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise RecordsError(
            f"column {quoted(name)} must be a sequence of cells; got a {type(values).__name__}. "
            "Give a list"
        )
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise RecordsError(
            f"column {quoted(name)} must have one cell for each record; got shape "
            f"{values.shape}. Give each of its columns a name"
        )
    return list(values)
