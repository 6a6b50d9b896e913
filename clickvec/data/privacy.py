"""What may be shown of a click log outside of the machine that trains on it.

Files and answers that others read name a query only if enough clients typed it, and never a client.
"""

import secrets
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

K_ANONYMOUS = 3  # the least number of clients that official statistics commonly require


def may_show(typed: NDArray[Any], k_anonymous: int | None = None) -> NDArray[np.bool_]:
    """Return which queries may be shown, by the number of clients that typed each.

    If the log does not say who typed a query, `typed` is its number of clicks. The least number is that of the rule of
    cleaning, and never below K_ANONYMOUS: whoever trains on all queries has not agreed to publish them.
    """
    return np.asarray(typed) >= max(k_anonymous or 0, K_ANONYMOUS)


class Pseudonyms:
    """Short names for clients, the same within one run. The key is random and not kept, so no name can be looked up."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)

    def __call__(self, client: int) -> str:
        """Return the pseudonym of a client, by its 64-bit hash."""
        return f"client {blake2b(client.to_bytes(8, 'little'), digest_size=4, key=self._key).hexdigest()}"
