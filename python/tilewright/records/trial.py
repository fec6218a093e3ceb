# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A trial: one choice of strategy and sizes for a spec, timed in turn with the model's choice on one machine; a line of JSON.

The line is canonical: a trial has one text, whose digest is its name. So the same trial in two databases is one trial.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Literal

from tilewright.errors import TilewrightError
from tilewright.payload import spec_tables
from tilewright.payload.spec_tables import Spec
from tilewright.records import machine
from tilewright.schedules.models.blocking import Blocking

FORMAT = 1
OWN = "own:"
"""What a user's schedule is called in records: this and the digest of its text, whatever is chosen of what it leaves open."""
"""The version of the lines. Lines of others are refused."""
Verdict = Literal["won", "tied", "lost", "wrong", "failed"]
VERDICTS: tuple[str, ...] = ("won", "tied", "lost", "wrong", "failed")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SOURCE = re.compile(r', source = "[^"]*"')
_MOST_LINE = 1 << 20


class RecordError(TilewrightError):
    """A record or a database that is damaged, foreign, or of another version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One choice, measured.

    Attributes:
        machine: The machine's facts (`machine.facts`).
        spec: What was computed, as a table (`spec_tables.table`).
        threads: Most threads of a call that were asked for.
        strategy: The strategy that was tried, or the user's schedule (`OWN`).
        sizes: Its sizes, or what was chosen in the schedule.
        schedule: The digest of its schedule's text (`schedule_digest`).
        versions: Of "tilewright" and "llvm".
        samples: Seconds of a call, a sample each.
        model: The same of the model's choice, or of the schedule's own, taken in turn with them: "strategy", "sizes", "samples".
        peak: GFLOP/s of multiply-adds in registers, measured in the same minutes; 0 where it was not.
        error: The largest error of an element, as a part of its bound.
        final: Whether it is the last comparison of a search, with more samples, which decides what is used.
        verdict: "won" or "lost" beyond the noise, "tied" within it, "wrong" numbers, or "failed" to compile or run.
        gain: The model's seconds over the choice's, the median of the ratios of samples; 0 without.
        moment: When, in UTC: "2026-11-23T06:00:00.000000Z".
    """

    machine: Mapping[str, Any]
    spec: Mapping[str, Any]
    threads: int
    strategy: str
    sizes: Mapping[str, int]
    schedule: str
    versions: Mapping[str, str]
    samples: tuple[float, ...]
    model: Mapping[str, Any]
    peak: float
    error: float
    final: bool
    verdict: Verdict
    gain: float
    moment: str

    @property
    def line(self) -> str:
        """The trial as canonical JSON, without a line's end."""
        return canonical({"format": FORMAT, **asdict(self)})

    @property
    def name(self) -> str:
        """The digest of the line."""
        return hashlib.sha256(self.line.encode()).hexdigest()

    @property
    def own(self) -> str | None:
        """What records call the user's schedule that was tried; None for a strategy of ours."""
        return self.strategy if _is_own(self.strategy) else None

    @property
    def computed(self) -> Spec:
        """What was computed."""
        return spec_tables.read(self.spec, "record")


def canonical(value: object) -> str:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def schedule_digest(text: str) -> str:
    """The digest of a schedule's text, whatever file and line it says it is from."""
    return hashlib.sha256(_SOURCE.sub("", text).encode()).hexdigest()


def parse(line: str, where: str) -> Trial:
    """The trial of a line.

    Args:
        line: Canonical JSON.
        where: What errors call it.

    Raises:
        RecordError: It is damaged, of another version, or says what cannot be.
    """
    try:
        given = json.loads(line) if len(line) <= _MOST_LINE else None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise RecordError(
            f"{line[:60]!r}", where=where, expected="a trial, a line of JSON", remedy="Leave out this file"
        )
    if given.get("format") != FORMAT:
        raise RecordError(f"format {given.get('format')!r}", where=where, expected=f"format {FORMAT}")
    values = {name: value for name, value in given.items() if name != "format"}
    names = {each.name for each in fields(Trial)}
    if set(values) != names:
        odd = sorted(set(values) ^ names)[0]
        raise RecordError(f"field {odd!r} is {'unknown' if odd in values else 'missing'}", where=where)
    for field, reason in _wrong(values):
        raise RecordError(f"{field} is {values[field]!r}"[:200], where=where, expected=reason)
    trial = Trial(**{**values, "samples": tuple(map(float, values["samples"])), "threads": int(values["threads"])})
    if trial.line != line:
        raise RecordError("it is not in canonical form", where=where, remedy="Write lines with `tilewright db export`")
    return trial


def _wrong(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The fields that cannot be as they are, each with what it has to be."""
    checks: list[tuple[str, bool, str]] = [
        ("machine", isinstance(values["machine"], dict) and "features" in values["machine"], "a machine's facts"),
        ("spec", _is_spec(values["spec"]), "the table of a spec"),
        ("threads", _is_whole(values["threads"]) and 1 <= values["threads"] <= 1024, "an int from 1 to 1024"),
        ("strategy", isinstance(values["strategy"], str), "a strategy's name"),
        ("sizes", _are_sizes(values["sizes"], values), "whole numbers, of a product's strategy mr, nr, mc, nc and kc"),
        (
            "final",
            not (values["final"] and _is_own(values["strategy"])),
            "false: a user's schedule decides nothing for others",
        ),
        ("schedule", isinstance(values["schedule"], str) and bool(_DIGEST.fullmatch(values["schedule"])), "a digest"),
        ("versions", _are_texts(values["versions"]), "texts by name"),
        ("samples", _are_seconds(values["samples"]), "seconds above zero"),
        ("model", _is_model(values["model"], values), "strategy, sizes and samples of the model's choice"),
        ("peak", _is_number(values["peak"]) and values["peak"] >= 0, "a number"),
        ("error", _is_number(values["error"]) and values["error"] >= 0, "a number"),
        ("final", isinstance(values["final"], bool), "true or false"),
        ("verdict", values["verdict"] in VERDICTS, f"one of {', '.join(VERDICTS)}"),
        ("gain", _is_number(values["gain"]) and values["gain"] >= 0, "a number"),
        ("moment", _is_moment(values["moment"]), "a time in UTC, such as 2026-11-23T06:00:00.000000Z"),
    ]
    return [(field, expected) for field, is_fine, expected in checks if not is_fine]


def _is_number(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_spec(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    try:
        spec = spec_tables.read(value, "record")
    except TilewrightError:
        return False
    return spec_tables.table(spec) == value


def _is_own(strategy: object) -> bool:
    return isinstance(strategy, str) and strategy.startswith(OWN)


def _are_sizes(value: object, trial: Mapping[str, Any]) -> bool:
    """Whether they can be sizes of what a trial tried: of a strategy for products, or others by name."""
    if not isinstance(value, dict):
        return False
    if _is_own(trial["strategy"]) or (isinstance(trial["spec"], dict) and "operator" in trial["spec"]):
        return all(map(_is_whole, value.values()))
    try:
        Blocking(**value)
    except (TilewrightError, TypeError):
        return False
    return True


def _are_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _are_seconds(value: object) -> bool:
    return isinstance(value, list) and all(_is_number(each) and each > 0 for each in value)


def _is_model(value: object, trial: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict) or set(value) != {"strategy", "sizes", "samples"}:
        return False
    return isinstance(value["strategy"], str) and _are_sizes(value["sizes"], trial) and _are_seconds(value["samples"])


def _is_moment(value: object) -> bool:
    try:
        datetime.strptime(str(value), "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return False
    return True


def machine_key(trial: Trial) -> str:
    """The digest of the facts of a trial's machine."""
    return machine.digest(dict(trial.machine))
