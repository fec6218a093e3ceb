# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps the trials of one search in a database, and finds those of earlier ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from tilewright import _codegen
from tilewright.bench.peak import Peak
from tilewright.bench.timing import cores
from tilewright.emit import versions
from tilewright.payload import spec_tables
from tilewright.payload.spec_tables import Spec
from tilewright.records import machine, nearest
from tilewright.records.database import Database
from tilewright.records.trial import Trial, canonical, schedule_digest
from tilewright.targets import Target
from tilewright.tuning.candidates import Candidate
from tilewright.tuning.race import Times
from tilewright.version import VERSION


@dataclass(frozen=True, slots=True)
class Log:
    """The trials of a product or an operator on this machine.

    Attributes:
        spec: What is computed.
        target: The machine.
        database: Where trials are.
        threads: Most threads of a call.
        multiplied: The types of the elements that are multiplied.
    """

    spec: Spec
    target: Target
    database: Database
    threads: int
    multiplied: tuple[str, str]

    def earlier(self) -> list[Trial]:
        """The trials of earlier searches by the same compiler, the last one of each candidate."""
        every = self.database.of(machine.key(self.target), canonical(self._table), self.threads)
        same = [each for each in every if each.versions.get("compiler") == versions.fingerprint() and not each.final]
        return list({(each.strategy, canonical(each.sizes)): each for each in same}.values())

    def elsewhere(self) -> list[Candidate]:
        """What won on other machines, or here with earlier versions, the nearest machine's first."""
        found = nearest.winners(self.database, canonical(self._table), self.threads, self.target)
        return list(dict.fromkeys(Candidate.of(each.strategy, each.sizes) for each in found))

    def keep(self, candidate: Candidate, model: Candidate, schedule: str, times: Times, **fields: Any) -> Trial:  # noqa: ANN401
        """Keeps a trial.

        Args:
            candidate: What was tried.
            model: What it was compared with.
            schedule: The text of its schedule.
            times: Its samples.
            **fields: Fields of `Trial` that are otherwise: "final", "verdict".
        """
        said: dict[str, Any] = {"final": False, "verdict": times.verdict if times.samples else "failed", **fields}
        trial = Trial(
            machine=machine.facts(self.target),
            spec=self._table,
            threads=self.threads,
            strategy=candidate.strategy,
            sizes=dict(candidate.sizes),
            schedule=schedule_digest(schedule),
            versions={"tilewright": VERSION, "llvm": _codegen.llvm_version, "compiler": versions.fingerprint()},
            samples=times.samples,
            model={"strategy": model.strategy, "sizes": dict(model.sizes), "samples": list(times.first)},
            peak=self._peak() if said["final"] else 0.0,
            error=times.error,
            gain=times.gain,
            moment=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            **said,
        )
        self.database.add([trial])
        return trial

    @property
    def _table(self) -> dict[str, Any]:
        table = spec_tables.table(self.spec)
        assert table is not None, "specs without a table are refused before"
        return table

    def _peak(self) -> float:
        """GFLOP/s of multiply-adds in registers."""
        peak = Peak(self.target, self.multiplied, cores(self.threads))
        try:
            return peak.sample(peak.calibrate(0.01)) * 1e-9
        finally:
            peak.close()
