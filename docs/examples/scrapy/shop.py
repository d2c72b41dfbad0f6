#!/usr/bin/env python3
"""A shop to be crawled in the tutorial: ten books, each page with a link to the next and the address that asked for it.

    $ python3 docs/examples/scrapy/shop.py 8931

It listens on the loopback address alone. Whoever has seen four pages gets 403 from then on, until /reset is asked for.
"""

import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BOOKS, PAGES_EACH = 10, 4
seen = Counter()  # pages by address


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        address = self.client_address[0]
        if self.path == "/reset":
            seen.clear()
            return self.answer(200, "ok\n")
        number = int(self.path.removeprefix("/book/")) if self.path.removeprefix("/book/").isdecimal() else 0
        if not 1 <= number <= BOOKS:
            return self.answer(404, "<h1>No such book</h1>")
        if seen[address] >= PAGES_EACH:
            return self.answer(403, "<h1>You have seen enough</h1>")
        seen[address] += 1
        following = f'<a class="next" href="/book/{number + 1}">next</a>' if number < BOOKS else ""
        self.answer(200, f"<h1>Book {number}</h1><address>{address}</address>{following}")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal() or not 0 < int(sys.argv[1]) < 65536:
        sys.exit("usage: shop.py PORT, with a port of 1 to 65535")
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Shop) as server:
        print(f"The shop is open at http://127.0.0.1:{server.server_port}/book/1", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
