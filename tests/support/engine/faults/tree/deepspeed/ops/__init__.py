"""Stand-in for DeepSpeed's operators."""
