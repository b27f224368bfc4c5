"""Stand-in for TensorBoard's program: serves a page and its version, as the real one does."""

import argparse
import json
from wsgiref.simple_server import WSGIRequestHandler, make_server

TITLE = "TensorBoard"


def application(environ, start_response):
    page = f"<html><head><title>{TITLE}</title></head></html>"
    known = {"/": page, "/data/environment": json.dumps({"version": "2.21.0"})}
    text = known.get(environ["PATH_INFO"])
    start_response("200 OK" if text else "404 Not Found", [("Content-Type", "text/html")])
    return [(text or "").encode()]


class Handler(WSGIRequestHandler):
    def log_message(self, *words):
        """Log no address: the first has the token in it."""


class WerkzeugServer:
    def __init__(self, served, flags):
        self.server = make_server(flags.host, flags.port, served, handler_class=Handler)

    def serve_forever(self):
        self.server.serve_forever()


class TensorBoard:
    def __init__(self, server_class):
        self.server_class = server_class

    def configure(self, argv):
        parser = argparse.ArgumentParser()
        for name in ("--logdir", "--host", "--load_fast"):
            parser.add_argument(name, required=True)
        parser.add_argument("--port", type=int, required=True)
        self.flags = parser.parse_args(argv[1:])

    def main(self):
        self.server_class(application, self.flags).serve_forever()
