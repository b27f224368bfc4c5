"""The ledger: of which package, wheel or declared list each file of an image is."""
