"""The site's settings: environment, site.yaml, credentials."""
