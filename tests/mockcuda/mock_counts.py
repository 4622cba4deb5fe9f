"""What the stand-ins' machine counts (mock_read), as mock_machine.h declares it."""
import ctypes
import pathlib
import re

_HEADER = pathlib.Path(__file__).with_name("mock_machine.h").read_text(encoding="utf-8")
_FIELDS = re.search(r"typedef struct mock_counts \{(.*?)\} mock_counts;", _HEADER, re.S).group(1)
NAMES = re.findall(r"\w+(?=[,;])", re.sub(r"/\*.*?\*/", "", _FIELDS, flags=re.S))


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in NAMES]
