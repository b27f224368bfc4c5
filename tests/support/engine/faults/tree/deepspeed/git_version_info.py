"""Stand-in for what DeepSpeed's build notes."""

installed_ops = {"fused_adam": True, "cpu_adam": False}
torch_info = {"version": "2.6", "cuda_version": "12.4", "nccl_version": "2.21"}
