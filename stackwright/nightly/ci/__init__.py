"""Rows to the jobs of a CI service: which rows share a job, and the files that the service reads."""
