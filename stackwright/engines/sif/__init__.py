"""SIF files: layout, squashfs, signatures."""
