"""The encoding of a text file: by its byte order mark, by the user, or by its first bytes: UTF-8 or Windows-1252.

A file in another encoding is read as UTF-8: its bytes are decoded and encoded again. Bytes that are not valid become
bytes that are not valid in UTF-8 either, so that their lines are bad, and only they.
"""

import codecs
import re
from collections.abc import Iterable
from typing import BinaryIO, cast

from clickvec.data.parsing.open_files import read_bytes
from clickvec.errors import ClickvecError

UTF_8, WESTERN = "utf-8", "windows-1252"
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: UTF_8,
}  # fmt: skip
_OTHERS = ("cp1251", "shift_jis", "gb18030", "euc_kr", "big5")  # which of them it is, nobody can tell surely
_HEAD_BYTES = 1 << 16  # read at least, unless there is a line before
_MANY = 3  # lines that are not UTF-8, before a file is refused
_HIGH = re.compile(rb"[\x80-\xff]+")
_FOREIGN = re.compile("[^\x00-\x7f]+")
_RARE = set("ÿþÞðÐªºµƒˆ˜‡†‰¤¦¬¸¯¶¹¿¡")  # in texts; in files of other kinds they are frequent
_SIGNS = set("“”‘’„‚–—…€£¥§°®©™«»·½¼¾²³×•´")

codecs.register_error("clickvec.bad_bytes", lambda error: ("\udc80", cast(UnicodeDecodeError, error).end))


def check_encoding(name: str) -> str:
    """Return the name of an encoding of text. Raise ClickvecError for another name."""
    try:
        if "query\t\n".encode(name).decode(name) == "query\t\n":
            return name
    except (LookupError, UnicodeError, ValueError):
        pass
    raise ClickvecError(f"there is no encoding {name[:40]!r}; usual ones are utf-8, cp1252, utf-16, gb18030, shift_jis")


def as_utf_8(stream: BinaryIO, name: str, wanted: str | None, size: int) -> tuple[BinaryIO, str]:
    """Return a stream of UTF-8 and the encoding of the file, told by its first `size` bytes unless one is `wanted`."""
    head = bytearray()
    while len(head) < _HEAD_BYTES and b"\n" not in head and (piece := read_bytes(stream, size, name)):
        head += piece  # a pipe gives what is there
    encoding = detect(bytes(head), name, wanted)
    return cast(BinaryIO, _Recoded(stream, name, bytes(head), encoding)), encoding


def detect(head: bytes, name: str, wanted: str | None) -> str:
    """Return the encoding of a file by its first bytes. Raise ClickvecError if nobody can guess it."""
    if wanted == UTF_8:
        return UTF_8
    marked = next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)
    if marked:
        return marked
    foreign, has_utf_8 = [], False
    count = 0
    for line in head.split(b"\n")[: -1 if head.count(b"\n") else None]:
        count += 1
        if not line.isascii():
            try:
                line.decode()
                has_utf_8 = True
            except UnicodeDecodeError:
                foreign.append(line)
    if wanted:  # a file of UTF-8 beside others stays as it is: its bytes are no other text by chance
        return UTF_8 if has_utf_8 and not foreign else wanted
    if not foreign or has_utf_8 or b"\0" in head:
        return UTF_8
    if _is_western(foreign):
        return WESTERN
    runs = [run for line in foreign for run in _HIGH.findall(line)]
    if len(foreign) >= max(_MANY, count / 10) and sum(map(len, runs)) >= 2 * len(runs):
        others = [other for other in _OTHERS if _decodes(foreign, other)]
        if others:
            raise ClickvecError(f"{name} is not UTF-8; name its encoding with --encoding, such as {', '.join(others)}")
    return UTF_8


def _is_western(lines: Iterable[bytes]) -> bool:
    """Whether lines are plausible in Windows-1252: one or two letters with accents inside of words of Latin letters."""
    likely = unlikely = 0
    for line in lines:
        try:
            text = line.decode(WESTERN)
        except UnicodeDecodeError:
            return False
        for run in _FOREIGN.finditer(text):
            before, signs = text[run.start() - 1 : run.start()], run[0].strip("\xa0")
            letters = [sign for sign in signs if sign not in _SIGNS]
            is_word = all(sign.isalpha() and sign not in _RARE for sign in letters) and len(letters) <= 2
            is_word = is_word and not (before.islower() and any(map(str.isupper, letters)))
            is_word = is_word and (len(letters) < 2 or before.isalpha())  # größe, créée
            likely, unlikely = likely + len(signs) * is_word, unlikely + len(signs) * (not is_word)
    return likely > 9 * unlikely


def _decodes(lines: Iterable[bytes], encoding: str) -> bool:
    try:
        for line in lines:
            line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


class _Recoded:
    """A stream whose first bytes are known, in UTF-8."""

    def __init__(self, stream: BinaryIO, name: str, head: bytes, encoding: str) -> None:
        self._stream, self._name, self._head, self._encoding = stream, name, head, encoding
        self._decoder = None if encoding == UTF_8 else codecs.getincrementaldecoder(encoding)("clickvec.bad_bytes")

    def read(self, size: int) -> bytes:
        while True:
            data, self._head = self._head or read_bytes(self._stream, size, self._name), b""
            if self._decoder is None:
                return data
            try:
                text = self._decoder.decode(data, not data)
            except UnicodeError as error:  # some decoders do not go on after an error
                raise ClickvecError(f"{self._name} is not {self._encoding}: {error}") from None
            if text or not data:
                return text.encode("utf-8", "surrogatepass")
