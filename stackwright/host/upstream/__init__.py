"""Ask mirrors and indexes what they offer."""
