"""Images and SIFs to the site's registry: by digest, tagged only after their verdict."""

from stackwright.publish.rows import Published, Publisher, foretell, index_tags, publish_rows, refusals

__all__ = ["Published", "Publisher", "foretell", "index_tags", "publish_rows", "refusals"]
