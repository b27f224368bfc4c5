"""Stand-in for torch.cuda."""
