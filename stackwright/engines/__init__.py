"""What runs containers: Docker (build, run, inspect), the ways to a GPU, and Apptainer (SIF)."""
