"""A gateway in front of `tests.hosts.s3` that takes empty objects whose key ends in a
slash, as S3 does and `rclone serve s3` does not.

pyarrow makes one for the folder of each object that it removes.
"""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_EMPTY_ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'


@contextmanager
def accept_folder_markers(port: int) -> Iterator[int]:
    """Forward requests to the server at `port`, but answer those that make a folder.
    Yield the gateway's own port.
    """

    class Gateway(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_folder = urlsplit(self.path).path.endswith("/")
            if self.command == "PUT" and is_folder and not body:
                self.send_response(200)
                self.send_header("ETag", _EMPTY_ETAG)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port)
            # the signature covers the header Host
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            if "Content-Length" not in answer.headers and self.command != "HEAD":
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815

        def log_message(self, *_words: object) -> None:
            """Print nothing."""

    gateway = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    thread = threading.Thread(target=gateway.serve_forever, daemon=True)
    thread.start()
    try:
        yield gateway.server_address[1]
    finally:
        gateway.shutdown()
        gateway.server_close()
        thread.join()
