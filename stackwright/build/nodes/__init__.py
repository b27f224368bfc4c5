"""Rows on several machines: each is a task of Dask distributed, through its ``Executor`` interface.

``address`` reads what the user named, ``connection`` makes a client of it, ``pieces`` says what rows share,
``worker`` runs on the nodes, ``session`` puts it in order. Nothing here decides which node does what.
"""
