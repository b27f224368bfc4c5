"""From a stack to Dockerfiles and definition files."""
