# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes executors of what a command line says: processes here, or the workers of Dask, Ray or MPI."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import closing, contextmanager
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

from tilewright.errors import TilewrightError
from tilewright.processes.pool import Processes

EXPECTED = "N, processes:N, dask://HOST:PORT, ray://HOST:PORT, ray, or mpi"
_MOST_PROCESSES = 4096
Result = TypeVar("Result")


@contextmanager
def opened(text: str) -> Iterator[Executor]:
    """The executor that a text names, which is shut down at the end; workers that were there before stay.

    Args:
        text: ``processes:N`` or ``N``: so many processes of this machine; ``dask://HOST:PORT``: a Dask scheduler; ``ray://HOST:PORT``: a
            Ray cluster's client server, or ``ray``: the cluster that this machine is of; ``mpi``: the other processes of ``mpiexec``.

    Raises:
        TilewrightError: The text means nothing, a package is missing, or there is no such cluster.
    """
    scheme, _, place = text.partition(":")
    if text.isdecimal():
        scheme, place = "processes", text
    if scheme not in _SCHEMES:
        raise TilewrightError(f"{text!r}", where="executor", expected=EXPECTED)
    with _SCHEMES[scheme](text, place.removeprefix("//")) as executor:
        yield executor


@contextmanager
def _processes(text: str, place: str) -> Iterator[Executor]:
    if not place.isdecimal() or not 1 <= int(place) <= _MOST_PROCESSES:
        raise TilewrightError(f"{text!r}", where="executor", expected=f"processes:N, N from 1 to {_MOST_PROCESSES}")
    executor = Processes(int(place))
    try:
        yield executor
    finally:
        executor.shutdown(wait=False)


@contextmanager
def _dask(text: str, place: str) -> Iterator[Executor]:
    client = _package("distributed", "dask").Client
    if not place.rpartition(":")[2].isdecimal():
        raise TilewrightError(f"{text!r}", where="executor", expected="dask://HOST:PORT")
    try:
        found = client(f"tcp://{place}", timeout=10, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise _absent(
            text, error, "Start `dask scheduler`, and `dask worker tcp://HOST:PORT` on each machine"
        ) from None
    with closing(found):
        yield found.get_executor(pure=False)


@contextmanager
def _ray(text: str, place: str) -> Iterator[Executor]:
    ray = _package("ray", "ray")
    if ray.is_initialized():
        yield RayExecutor(ray)
        return
    try:
        ray.init(address=text if place else "auto", log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _absent(text, error, "Start `ray start --head`, and `ray start --address=HOST:6379` on others") from None
    try:
        yield RayExecutor(ray)
    finally:
        ray.shutdown()


@contextmanager
def _mpi(text: str, place: str) -> Iterator[Executor]:
    if place or ":" in text:
        raise TilewrightError(f"{text!r}", where="executor", expected="mpi")
    comm = _package("mpi4py.MPI", "mpi").COMM_WORLD
    pool = _package("mpi4py.futures", "mpi")
    if comm.Get_size() < 2:
        raise TilewrightError(
            "mpi: this is the only process",
            where="executor",
            expected="workers beside it",
            remedy="Start it as `mpiexec -n N python -m mpi4py.futures -m tilewright …`",
        )
    with pool.MPIPoolExecutor() as executor:
        yield executor


_SCHEMES: Mapping[str, Callable[[str, str], Any]] = MappingProxyType(
    {"processes": _processes, "dask": _dask, "ray": _ray, "mpi": _mpi}
)


class RayExecutor(Executor):
    """Calls functions as tasks of Ray."""

    def __init__(self, ray: ModuleType) -> None:
        """Takes the module, which `ray.init` has connected with a cluster."""
        # A task whose worker ends is not made again by Ray, but by the caller, as with every executor.
        self._call = ray.remote(max_retries=0)(_call)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:  # noqa: ANN401
        """As `Executor.submit`."""
        return self._call.remote(fn, args, kwargs).future()


def _call(function: Callable[..., Result], arguments: tuple[Any, ...], named: dict[str, Any]) -> Result:
    return function(*arguments, **named)


def _package(name: str, extra: str) -> ModuleType:
    """A module of a package that need not be installed.

    Raises:
        TilewrightError: It is not, or cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py, without an MPI library
        package = name.partition(".")[0]
        raise TilewrightError(
            f"{package} cannot be imported: {error}",
            where="executor",
            remedy=f"Install it: pip install 'tilewright[{extra}]'",
        ) from None


def _absent(text: str, error: Exception, remedy: str) -> TilewrightError:
    reason = f"{error}".partition("\n")[0]
    return TilewrightError(f"{text}: no cluster answers: {reason}", where="executor", remedy=remedy)
