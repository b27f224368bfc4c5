"""Stand-in for what torch.compile is told."""


class cpp:
    simdlen = None
