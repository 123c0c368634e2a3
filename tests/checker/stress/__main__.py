"""``python -m stress SECONDS SEED [DEFECT]``: work at random, with a program of the catalogue in the middle if named.

Prints how often each piece of work was done and what the process holds, as JSON: resident memory after a quarter of the
time and at the end.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from random import Random

from catalogue import CATALOGUE

import cann_mla
from cann_mla import c
from stress.actions import ACTIONS, Action, Streams

THREADS, STREAMS = 8, 4


class Stress:
    """The threads, what they have done and what went wrong."""

    def __init__(self, device: cann_mla.Device, streams: Streams, seconds: float, seed: int) -> None:
        self._device = device
        self._streams = streams
        self._seed = seed
        self._end = time.monotonic() + seconds
        self.done: Counter[str] = Counter()
        self.faults: list[BaseException] = []

    def work(self, number: int) -> None:
        """One thread's work until the time is up."""
        rng, done = Random(f"{self._seed}.{number}"), Counter[str]()
        self._device.use()
        try:
            for action in self._actions(rng):
                action(rng, self._streams)
                done[action.__name__] += 1
        except BaseException as fault:  # kept for the main thread, which raises it
            self.faults.append(fault)
        self.done.update(done)

    def _actions(self, rng: Random) -> Iterator[Action]:
        """All pieces of work in one order after the other, until the time is up."""
        while True:
            for action in rng.sample(ACTIONS, len(ACTIONS)):
                if time.monotonic() >= self._end:
                    return
                yield action


def resident_bytes() -> int:
    """What the process has in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def main() -> None:
    """Run the threads, and in the middle of it the wrong program."""
    seconds, seed, name = float(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or [""])[0]
    cann_mla.load("sim")
    c.aclInit(c.NULL)
    with cann_mla.Device(0) as device:
        streams = [cann_mla.Stream() for _ in range(STREAMS)]
        stress = Stress(device, streams, seconds, seed)
        threads = [threading.Thread(target=stress.work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 4)
        early = resident_bytes()
        for defect in CATALOGUE:
            if defect.name == name:
                defect.program(True)
        for thread in threads:
            thread.join()
        for fault in stress.faults:
            raise fault
        late = resident_bytes()
    c.aclFinalize()
    print(json.dumps({"done": stress.done, "early": early, "late": late}))


main()
