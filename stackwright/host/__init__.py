"""This host: processes, files, disk, the site's settings, and what mirrors offer."""
