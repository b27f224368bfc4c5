"""Pure values and functions: no process, file, clock or socket."""
