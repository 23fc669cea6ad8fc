"""Source files: read whole, unpacked and checked before anything is made of them."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from outtrees._common.files import read_bytes, size_text
from outtrees.errors import Option, RecordsError

MAX_BYTES = 4 * 2**30
# Text packs 3 to 30 times. Small files may do what they like: they cannot fill the memory.
LARGEST_RATIO = 200
HARMLESS = 2**20
_CHUNK = 2**20
_FIRST_SLICE = 2**10
_PADDING = re.compile(b"\0*")
_HEAD = 4096  # bytes in which a NUL tells that a file is not text

ZIP = b"PK\x03\x04"
_ARCHIVES = {
    ZIP: "a zip archive or a spreadsheet (.xlsx)",
    b"BZh": "packed with bzip2",
    b"\xfd7zXZ\x00": "packed with xz",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
}


@dataclass(frozen=True)
class Source:
    """The bytes of one file, unpacked, with what says where they came from."""

    name: str  # without its folder
    data: bytes
    sha256: str  # of the file as it is on disk

    @property
    def extension(self) -> str:
        """The extension in small letters without a final .gz, such as ".csv"."""
        return Path(self.name.lower().removesuffix(".gz")).suffix

    def text(self, encoding: str = "utf-8") -> str:
        """Return the text, or say which byte on which line is not in this encoding."""
        data = self.data
        try:
            codec = codecs.lookup(encoding).name
        except LookupError:
            raise RecordsError(
                f"{encoding!r} is not the name of an encoding; write for example 'utf-8'"
            ) from None
        wide = codec.startswith(("utf-16", "utf-32"))
        if data[:2] in (b"\xff\xfe", b"\xfe\xff") and not wide:
            raise RecordsError(
                f"{self.name} must be {encoding} text; got UTF-16. Pass ",
                Option("encoding", "utf-16"),
                file=self.name,
            )
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            if b"\0" in data[:_HEAD] and not wide:
                raise RecordsError(
                    f"{self.name} is not a text file; give CSV, TSV, Parquet, FASTA or NEXUS"
                ) from None
            # In UTF-16 the offset is right and the count of line ends is good enough.
            line = data.count(b"\n", 0, error.start) + 1
            raise RecordsError(
                f"{self.name}: byte 0x{data[error.start]:02x} at line {line} is not {encoding}; "
                "pass the encoding of the file, for example ",
                Option("encoding", "latin-1"),
                file=self.name,
                line=line,
            ) from None
        nul = text.find("\0")
        if nul >= 0:
            line = text.count("\n", 0, nul) + 1
            raise RecordsError(
                f"{self.name}: NUL character at line {line}; this is not a text file, or it is "
                "UTF-16 or UTF-32: pass its encoding",
                file=self.name,
                line=line,
            )
        return text.removeprefix("\ufeff")


def read_source(
    path: str | os.PathLike[str], max_bytes: int = MAX_BYTES, *, spreadsheets: bool = False
) -> Source:
    """Return the contents of a regular file, unpacked if it is gzip.

    Refused are what is larger than max_bytes (packed or unpacked), what unpacks to more than 200
    times its size, and archives; with ``spreadsheets`` those called .xlsx are returned as they are.
    """
    path = Path(path)
    packed = read_bytes(path, max_bytes)
    sheets = spreadsheets and path.suffix.lower() in (".xlsx", ".xlsm")
    for magic, what in _ARCHIVES.items():
        if packed.startswith(magic) and not (sheets and magic == ZIP):
            raise RecordsError(f"{path.name} is {what}; unpack it, or save the table as CSV")
    data = _unpacked(path.name, packed, max_bytes) if packed[:2] == b"\x1f\x8b" else packed
    return Source(path.name, data, hashlib.sha256(packed).hexdigest())


def _unpacked(name: str, packed: bytes, max_bytes: int) -> bytes:
    """Return the contents of a gzip file in time that grows with its length and its contents.

    Slices of the file are fed, because a decompressor copies whatever it leaves unread; a member's
    first slice is short, because a file may be made of millions of empty members.
    """
    limit = min(max_bytes, max(LARGEST_RATIO * len(packed), HARMLESS))
    whole = memoryview(packed)
    pieces: list[bytes] = []
    total = at = 0
    while at < len(packed):  # a gzip file is one or several packed members, one after the other
        if packed[at : at + 2] != b"\x1f\x8b":
            raise RecordsError(f"{name} is a gzip file followed by something else; get it again")
        member = zlib.decompressobj(wbits=31)
        step = _FIRST_SLICE
        while not member.eof:
            feed = whole[at : at + step]
            try:
                piece = member.decompress(feed, _CHUNK)
            except zlib.error as error:
                raise RecordsError(
                    f"{name} is a damaged gzip file ({error}); get it again"
                ) from None
            read = len(feed) - len(member.unconsumed_tail) - len(member.unused_data)
            if not piece and not read and not member.eof:
                raise RecordsError(f"{name} is a truncated gzip file; get it again")
            at += read
            step = min(2 * step, _CHUNK)
            if piece:
                pieces.append(piece)
            total += len(piece)
            if total > limit:
                raise RecordsError(
                    f"{name}: {size_text(len(packed))} of gzip open to more than "
                    f"{size_text(total)} (limits: {LARGEST_RATIO} times as much, and ",
                    Option("max_bytes"),
                    f" = {size_text(max_bytes)}); unpack it yourself if you trust it",
                    file=name,
                )
        padding = _PADDING.match(packed, at)  # is allowed
        at = padding.end() if padding else at
    return b"".join(pieces)
