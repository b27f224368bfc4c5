"""DeepSpeed, which trains on torch.distributed, compiled for an image."""
