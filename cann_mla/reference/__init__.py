"""The oracle: operators in plain NumPy, written from the specification and from nothing else.

Nothing here touches a device or a library; the package imports only :mod:`cann_mla.dtypes` and
:mod:`cann_mla.formats`. Every function is pure: operands are not modified, updated caches are returned.
"""

from cann_mla.reference.evaluate import evaluate

__all__ = ["evaluate"]
