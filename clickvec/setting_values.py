"""Values of settings: read from a TOML file or `key=value`, converted to their type, checked, shown in messages."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clickvec.errors import ClickvecError

_KIND_NAMES = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a word"}
# A recipe file holds a few dozen short lines. Larger ones are refused before they are parsed, because the time to parse
# a dotted key grows with the square of its length.
MAX_FILE_BYTES = 16_384


def read_toml(path: Path) -> Mapping[str, object]:
    """Return the settings of a TOML file. Raise a ClickvecError if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)  # /dev/zero never ends
        if len(content) > MAX_FILE_BYTES:
            raise ClickvecError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes; give a recipe file in TOML")
        return tomllib.loads(content.decode())
    except OSError as error:
        raise ClickvecError(f"cannot read the recipe file {path}: {error.strerror}") from None
    except RecursionError:
        raise ClickvecError(f"{path} is not a recipe: its brackets are nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise ClickvecError(f"{path} is not TOML: {error}") from None


def read_setting(setting: str) -> tuple[str, str]:
    """Return key and value of `key=value`."""
    key, equals, value = setting.partition("=")
    if not equals:
        raise ClickvecError(f"--set takes key=value, not {setting!r}")
    return key.strip(), value.strip()


def wrong_type(name: str, kind: type, value: object) -> ClickvecError:
    """Return the error for a value that is not of its setting's type."""
    return ClickvecError(f"the setting {name} takes {_KIND_NAMES[kind]}, not {shorten(value)}")


def convert(kind: type, value: object) -> Any:  # noqa: ANN401
    """Return a value, or the text of one, as `kind`; None if it is not one."""
    if kind is bool and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    if isinstance(value, bool) or kind in (bool, str):
        return value if type(value) is kind else None
    try:
        number = kind(value) if isinstance(value, str) or kind is float or value == int(value) else None  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(number, float) and not math.isfinite(number) else number


def check_bounds(
    name: str,
    value: Any,  # noqa: ANN401
    choices: Mapping[str, Sequence[str]],
    limits: Mapping[str, tuple[float, float]],
) -> None:
    """Raise a ClickvecError if a value of the right type is not one of the choices, or is out of bounds."""
    if name in choices and value not in choices[name]:
        raise ClickvecError(f"the setting {name} is one of {', '.join(choices[name])}, not {shorten(value)}")
    if name in limits and not limits[name][0] <= value <= limits[name][1]:
        least, most = limits[name]
        bound = f"at least {least:,}" if value < least else f"at most {most:,}"
        raise ClickvecError(f"the setting {name} is {bound}, not {shorten(value)}")
    if name == "window" and value % 2 == 0:
        raise ClickvecError(f"the setting window is odd (a token and as many on each side), not {value}")


def shorten(value: object, most: int = 60) -> str:
    """Return a value for a message, cut if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; lists in lists
        return "a very long value"
    return text if len(text) <= most else f"{text[:most]}..."
