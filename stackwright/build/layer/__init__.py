"""A layer of a user's own software on a finished image or SIF: made of new files alone, and proven."""
