# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opens the socket on which the lab listens."""

from __future__ import annotations

import socket

from tilewright.errors import TilewrightError


def bound(host: str, port: int) -> socket.socket:
    """A socket of TCP at an address; port 0 takes a free one.

    Raises:
        TilewrightError: Another program listens there, or it may not be used.
    """
    line = socket.socket()
    try:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.bind((host, port))
        line.listen()  # Whoever reads the address finds somebody there, who answers as soon as the server has started.
    except OSError as error:
        line.close()
        raise TilewrightError(
            f"cannot listen on {host}:{port}: {error.strerror}", where="--port", expected="a free port"
        ) from None
    return line
