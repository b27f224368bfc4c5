"""torch.distributed, the communication layer that is a part of PyTorch."""
