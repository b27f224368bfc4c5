"""Horovod, NCCL and PyTorch on the GPUs of a host, with a container engine or without one: `make gpu`."""
