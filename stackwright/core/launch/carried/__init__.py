"""Programs that a launch carries into the job. They are not imported here."""
