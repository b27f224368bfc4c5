"""What components have in common: rules that ask them all, and parts that their files are made of."""
