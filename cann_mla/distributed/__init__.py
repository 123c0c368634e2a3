"""AtbRingMLA over many ranks: long causal sequences, each rank with a part of the tokens.

>>> exchange = MpiExchange(timeout=60)
>>> split = ZigZag(lengths, exchange.size)
>>> rows = split.rows(exchange.rank)
>>> with ShardAttention(split, exchange, query_split1[rows], query_split2[rows], stream=stream) as attention:
...     ring_attention(attention, key_split1[rows], key_split2[rows], value[rows])
...     output, softmax_lse = attention.result()

Between the ranks goes what an :class:`Exchange` carries: :class:`MpiExchange` from host memory, :class:`HcclExchange`
from device memory. mpi4py (the extra ``mpi``) is loaded when one is made over MPI.
"""

from __future__ import annotations

from cann_mla.distributed.all_gather import all_gather_attention
from cann_mla.distributed.exchange import Exchange, ExchangeError, ExchangeTimeoutError, HostBlocks, Pending
from cann_mla.distributed.hccl import HcclExchange
from cann_mla.distributed.mpi import MpiExchange
from cann_mla.distributed.ring import ring_attention, ring_context
from cann_mla.distributed.schedule import BlockCall, RingStep, block_calls, ring_schedule
from cann_mla.distributed.shard import ShardAttention
from cann_mla.distributed.zigzag import ZigZag

__all__ = [
    "BlockCall",
    "Exchange",
    "ExchangeError",
    "ExchangeTimeoutError",
    "HcclExchange",
    "HostBlocks",
    "MpiExchange",
    "Pending",
    "RingStep",
    "ShardAttention",
    "ZigZag",
    "all_gather_attention",
    "block_calls",
    "ring_attention",
    "ring_context",
    "ring_schedule",
]
