# ruff: noqa: E501 (the lines are as the program writes them)
"""What all_reduce_perf of nccl-tests 2.19.6 writes, as its source and its documentation have the columns.

Written by hand: no GPU was there. The numbers mean nothing.
"""

HEAD = """# nccl-tests version 2.19.6 nccl-headers=22105 nccl-library=22105
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 1 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  41001 on          a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  41002 on          a device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid  51001 on          b device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid  51002 on          b device  1 [0000:43:00] NVIDIA H100 80GB HBM3
a:41001:41001 [0] NCCL INFO Using network IB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
ROWS = """           8             2     float     sum      -1    24.11    0.00    0.00       0    23.90    0.00    0.00       0
   536870912     134217728     float     sum      -1   8530.2   62.94   94.41       0   8521.7   63.00   94.50       0
  1073741824     268435456     float     sum      -1    16780   63.99   95.98       0    16790   63.95   95.93       0
"""
FOOT = """# Out of bounds values : 0 OK
# Avg bus bandwidth    : 63.5
#
# Collective test concluded: all_reduce_perf
"""
TABLE = HEAD + ROWS + FOOT
