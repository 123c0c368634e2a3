"""Devices, contexts, streams, events and memory as Python objects that own what they stand for.

Each object has an idempotent ``close()``, works in ``with``, and raises :class:`~cann_mla.errors.ClosedError`
when it is used afterwards. Memory that a stream may still need is freed when the stream has passed it.
"""

from cann_mla.runtime.device import Context, Device, current_device
from cann_mla.runtime.memory import DeviceMemory, HostMemory
from cann_mla.runtime.stream import Event, Stream

__all__ = ["Context", "Device", "DeviceMemory", "Event", "HostMemory", "Stream", "current_device"]
